// Two workers of the module `cluster` serve 200 requests of the primary, which then ends them.
const cluster = require('cluster');
const http = require('http');

function work() {
  let sum = 0;
  for (let i = 0; i < 200000; i++) sum = (sum + i * i) % 1000003;
  return sum;
}

async function primary() {
  const agent = new http.Agent({ keepAlive: false });
  const get = () =>
    new Promise((resolve, reject) =>
      http
        .get({ socketPath: 'zoo.sock', agent }, response => {
          let text = '';
          response.on('data', data => (text += data)).on('end', () => resolve(text));
        })
        .on('error', reject),
    );
  const texts = new Set();
  for (let i = 0; i < 200; i++) texts.add(await get());
  console.log([...texts].join());
  for (const worker of Object.values(cluster.workers)) worker.kill();
}

if (cluster.isPrimary) {
  let listening = 0;
  cluster.on('listening', () => ++listening === 2 && primary());
  cluster.on('exit', (_, code, signal) => console.log('exit', code, signal));
  cluster.fork();
  cluster.fork();
} else {
  http.createServer((_, response) => response.end(String(work()))).listen('zoo.sock');
}
