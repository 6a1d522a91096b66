// The fleet at a glance: reads the nodes once, then follows their events.
// Everything shown is set as text, never as markup: names come from foreign machines.

const nodes = new Map()
const marks = { healthy: '✓', draining: '◐', pending: '?', unhealthy: '▲', offline: '–' }
const element = (id) => document.getElementById(id)

function cell(row, text, note) {
  const td = row.insertCell()
  td.textContent = text
  if (note) td.append(Object.assign(document.createElement('small'), { textContent: note }))
  return td
}

const gigabytes = (bytes) => (bytes === null ? '?' : (bytes / 2 ** 30).toFixed(1))
const memory = (available, total) => (total === null ? '–' : `${gigabytes(available)} of ${gigabytes(total)} GiB free`)

function sentenceOf(all) {
  if (all.length === 0) return 'No nodes yet. Add one with: muster worker --join URL --token T'
  const healthy = all.filter((node) => node.status === 'healthy').length
  const trouble = all.find((node) => node.status !== 'healthy')
  const count = `${all.length} ${all.length === 1 ? 'node' : 'nodes'}, ${healthy} healthy.`
  return trouble === undefined ? count : `${count} ${trouble.name} is ${trouble.status}: ${trouble.status_reason}.`
}

function render() {
  const all = [...nodes.values()].toSorted((a, b) => (a.name + a.id < b.name + b.id ? -1 : 1))
  element('sentence').textContent = sentenceOf(all)
  element('nodes').hidden = all.length === 0
  const body = document.createElement('tbody')
  for (const node of all) {
    const row = body.insertRow()
    cell(row, node.name, node.node_type === 'agent' ? 'agent' : '')
    cell(row, `${marks[node.status]} ${node.status}`, node.status_reason).className = node.status
    cell(row, memory(node.resources.available_ram, node.resources.total_ram))
    cell(row, memory(node.resources.available_vram, node.resources.total_vram))
    cell(row, `${node.os}/${node.arch}`, node.version)
    cell(row, node.id).className = 'id'
  }
  element('nodes').tBodies[0].replaceWith(body)
}

function show(state, words) {
  element('live').dataset.state = state
  element('live').textContent = words
}

/** The nodes as they are now. False when nobody is logged in. */
async function load() {
  const response = await fetch('/api/nodes')
  if (response.status === 401) {
    element('sentence').textContent = 'Not logged in. Run "muster login-link" on the controller’s machine and open the link that it prints.'
    show('out', 'logged out')
    return false
  }
  if (!response.ok) throw new Error((await response.json()).error.message)
  nodes.clear()
  for (const node of (await response.json()).nodes) nodes.set(node.id, node)
  render()
  return true
}

function tell(error) {
  element('sentence').textContent = String(error.message)
}

/** Listens first and reads second, at every (re)connection: a change in between is then not missed. */
function follow() {
  const events = new EventSource('/api/events')
  events.addEventListener('open', () => {
    show('live', 'live')
    load().catch(tell)
  })
  events.addEventListener('error', () => {
    show('reconnecting', 'reconnecting')
    // The browser gives up when it is refused: the login has ended, or the controller is starting.
    if (events.readyState === EventSource.CLOSED) setTimeout(start, 2000)
  })
  events.addEventListener('reset', () => void load().catch(tell))
  events.addEventListener('node', (event) => {
    const node = JSON.parse(event.data)
    if (node.deleted) nodes.delete(node.id)
    else nodes.set(node.id, node)
    render()
  })
}

async function start() {
  try {
    if (await load()) follow()
  } catch (error) {
    tell(error)
    setTimeout(start, 2000)
  }
}
void start()
