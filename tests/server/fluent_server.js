// A server of the forward protocol, which acknowledges chunks: prints each entry. Usage: node fluent_server.js MODULES PORT
const [, , modules, port] = process.argv;
const { FluentServer } = require(modules + '/@fluent-org/logger');

const server = new FluentServer({ listenOptions: { port: Number(port), host: '127.0.0.1' } });
server.on('entry', (tag, time, record) => console.log(JSON.stringify({ tag, record })));
server.listen().then(() => console.log('"listening"'));
