// Three worker threads compute and share memory.
const { Worker, isMainThread, workerData } = require('worker_threads');

if (isMainThread) {
  const shared = new SharedArrayBuffer(12);
  let running = 3;
  for (let i = 0; i < 3; i++) {
    new Worker(__filename, { workerData: { shared, i } }).on('exit', () => {
      if (--running === 0) console.log([...new Int32Array(shared)].join(' '));
    });
  }
} else {
  let sum = 0;
  for (let i = 0; i < 2e7; i++) sum = (sum + i * i) % 1000003;
  Atomics.store(new Int32Array(workerData.shared), workerData.i, sum);
}
