// The ways in which node starts processes.
const { execSync, fork, spawn, spawnSync } = require('child_process');

if (process.argv[2] === 'child') {
  process.on('message', n => {
    let sum = 0;
    for (let i = 0; i < n; i++) sum = (sum + i * i) % 1000003;
    process.send(sum, () => process.disconnect());
  });
} else {
  console.log(execSync('seq 5 | wc -l').toString().trim());
  console.log(spawnSync('sort', ['-n'], { input: '3\n1\n2\n' }).stdout.toString().split('\n').join(' '));
  const killed = spawn('sleep', ['60']);
  killed.on('exit', (code, signal) => {
    console.log('sleep', code, signal);
    const sums = [];
    for (const n of [1e7, 2e7]) {
      fork(__filename, ['child'])
        .on('message', sum => sums.push(sum) === 2 && console.log(sums.sort().join(' ')))
        .send(n);
    }
  });
  setTimeout(() => killed.kill(), 300);
}
