// Starts the suite's own origin server: on a free port, which it prints, and on loopback only. The suite's server
// listens on a given port of every address; nothing else of it is changed.
//
//     node serve.mjs SUITE_SERVER_FILE PIDFILE

import net from 'node:net'
import { pathToFileURL } from 'node:url'

const [file, pidfile] = process.argv.slice(2)
const listen = net.Server.prototype.listen

net.Server.prototype.listen = function () {
  return listen.call(this, { host: '127.0.0.1', port: 0 })
}

// The suite reads its options where npm puts them.
process.env.npm_config_protocol = 'http'
process.env.npm_config_port = '80'
process.env.npm_config_pidfile = pidfile

await import(pathToFileURL(file).href)
