// A server of the forward protocol, which acknowledges chunks. Usage: node fluent_server.js MODULES [SETTINGS]
//
// SETTINGS, in JSON: `port` (0: a free one), `security` (shared key and users), `numbers`: of records, only this member is printed, many a
// line. Prints its port, then each entry. Ends on SIGTERM, once everything is printed.
const fs = require('fs');
const [, , modules, text] = process.argv;
const { FluentServer } = require(modules + '/@fluent-org/logger');
const { port = 0, security, numbers } = JSON.parse(text || '{}');

const print = (value) => fs.writeSync(1, JSON.stringify(value) + '\n');
let unprinted = [];
const flush = () => {
  if (unprinted.length > 0) print(unprinted);
  unprinted = [];
};

const server = new FluentServer({ listenOptions: { port, host: '127.0.0.1' }, security });
server.on('entry', (tag, time, record) => {
  if (numbers === undefined) return print({ tag, record });
  if (unprinted.length === 0) setImmediate(flush);
  unprinted.push(record[numbers]);
});
process.on('SIGTERM', () => {
  flush();
  process.exit(0);
});
server.listen().then(() => print(server.port));
