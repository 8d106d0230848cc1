// A server of the forward protocol, which acknowledges chunks: prints its port, then each entry. Usage: node fluent_server.js MODULES
const [, , modules] = process.argv;
const { FluentServer } = require(modules + '/@fluent-org/logger');

const server = new FluentServer({ listenOptions: { port: 0, host: '127.0.0.1' } });
server.on('entry', (tag, time, record) => console.log(JSON.stringify({ tag, record })));
server.listen().then(() => console.log(server.port));
