// Runs the suite's own client against a proxy and scores with the suite's own code. One JSON document on standard
// output says what every test came to; what the suite prints goes to standard error.
//
//     node client.mjs SUITE MODULES BASE [TEST...]
//
// SUITE is a checkout of the suite or its npm package, MODULES the node_modules with what it needs, BASE the proxy
// without a slash at its end. Given tests run alone, with those they depend on; a single one shows its messages.

import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const [suite, modules, base, ...chosen] = process.argv.slice(2)
console.log = console.error

const url = (...path) => pathToFileURL(resolve(join(...path))).href
const load = (...path) => import(url(...path))

// Over HTTP/2 both editions fetch with undici, which only then speaks it.
const overHttp2 = process.env.PETASOS_PROTOCOL === 'http2'
const undici = await load(modules, 'undici/index.js')
if (overHttp2) undici.setGlobalDispatcher(new undici.Agent({ allowH2: true }))

// The npm edition was written for node-fetch, which sends the fields of a test as they are. undici adds no-cache to
// requests with a condition, as browsers do, so the fields of a test pass it under other names.
const added = ['cache-control', 'pragma']
const hidden = name => added.includes(name.toLowerCase()) ? `x-own-${name}` : name
const restored = name => name.toLowerCase().startsWith('x-own-') ? name.slice('x-own-'.length) : name
const pairs = fields => Array.isArray(fields) ? fields : Object.entries(fields ?? {})

function plainFetch () {
  const dispatcher = new undici.Agent({ allowH2: true }).compose(dispatch => (options, handler) => {
    const sent = pairs(options.headers).filter(([name]) => !added.includes(name.toLowerCase()))
    const headers = Object.fromEntries(sent.map(([name, value]) => [restored(name), value]))
    return dispatch({ ...options, headers }, handler)
  })
  return (url, { cache, headers, ...init } = {}) =>
    undici.fetch(url, { ...init, headers: pairs(headers).map(([name, value]) => [hidden(name), value]), dispatcher })
}

// What differs between the suite's two layouts: the checkout's and that of the npm package, which is older.
async function open () {
  if (existsSync(join(suite, 'test-engine'))) {
    // The checkout imports undici by name, which must be found here instead of in the checkout.
    const { register } = await import('node:module')
    const found = JSON.stringify(url(modules, 'undici', 'index.js'))
    register('data:text/javascript,' + encodeURIComponent(
      `export const resolve = (name, context, next) => next(name === 'undici' ? ${found} : name, context)`))
    const { runTests, getResults } = await load(suite, 'test-engine/client/runner.mjs')
    const { determineTestResult } = await load(suite, 'test-engine/lib/results.mjs')
    const { default: suites } = await load(suite, 'tests/index.mjs')
    return { suites, determineTestResult, getResults, run: tests => runTests(tests, false, base) }
  }
  const fetch = overHttp2 ? plainFetch() : (await load(modules, 'node-fetch/lib/index.mjs')).default
  const { runTests, getResults } = await load(suite, 'client/runner.mjs')
  const { determineTestResult } = await load(suite, 'lib/display.mjs')
  const { default: suites } = await load(suite, 'tests/index.mjs')
  suites.push((await load(suite, 'tests/surrogate-control.mjs')).default)
  return { suites, determineTestResult, getResults, run: tests => runTests(tests, fetch, false, base) }
}

const { suites, determineTestResult, getResults, run } = await open()
const tests = new Map(suites.flatMap(({ tests }) => tests.map(test => [test.id, test])))

function fail (message) {
  console.error(message)
  process.exit(1)
}

// The tests of `ids` and all they depend on, through any number of steps.
function closure (ids) {
  const wanted = new Set()
  const add = id => {
    if (!tests.has(id)) fail(`the suite has no test ${id}`)
    if (wanted.has(id)) return
    wanted.add(id)
    tests.get(id).depends_on?.forEach(add)
  }
  ids.forEach(add)
  return wanted
}

const wanted = closure(chosen.length > 0 ? chosen : [...tests.keys()])
if (chosen.length === 1) tests.get(chosen[0]).dump = true
await run(suites.map(set => ({ ...set, tests: set.tests.filter(test => wanted.has(test.id)) })))

// The suite names an outcome by a symbol only.
const outcomes = {
  '-': 'untested', '✅': 'pass', '⛔️': 'fail', '⚠️': 'optional_fail', Y: 'yes', N: 'no', '🔹': 'setup_fail',
  '⁉️': 'harness_fail', '⚪️': 'dependency_fail', '↻': 'retry'
}
const results = getResults()
const listed = [...tests.values()].filter(test => wanted.has(test.id) && test.browser_only !== true)
const report = listed.map(({ id, kind, depends_on: dependsOn, requests }) => ({
  id,
  kind: kind ?? 'required',
  depends_on: dependsOn ?? [],
  pauses: requests.some(request => 'pause_after' in request || 'response_pause' in request),
  outcome: outcomes[determineTestResult(suites, id, results, true)[2]],
  error: Array.isArray(results[id]) ? results[id] : null
}))
process.stdout.write(JSON.stringify(report) + '\n', () => process.exit(0))
