// The counters of this process, for Prometheus.

export function createMetrics() {
  const counted = { requests: 0, failed: 0, aborted: 0, generated: 0, embedded: 0 }
  let inFlight = 0
  return {
    begin: () => {
      counted.requests += 1
      inFlight += 1
    },
    end: () => (inFlight -= 1),
    failed: () => (counted.failed += 1),
    aborted: () => (counted.aborted += 1),
    generated: (tokens) => (counted.generated += tokens),
    embedded: (texts) => (counted.embedded += texts),
    inFlight: () => inFlight,

    render(slots) {
      const lines = [
        counter('requests_total', 'Requests taken.', counted.requests),
        counter('requests_failed_total', 'Requests answered with an error of this program.', counted.failed),
        counter('requests_aborted_total', 'Requests whose client left before the end.', counted.aborted),
        counter('tokens_generated_total', 'Tokens generated.', counted.generated),
        counter('texts_embedded_total', 'Texts embedded.', counted.embedded),
        gauge('requests_in_flight', 'Requests being worked on or waiting.', inFlight),
        gauge('slots', 'How many can generate at once.', slots?.total ?? 0),
        gauge('slots_busy', 'How many generate now.', slots?.busy() ?? 0),
        gauge('requests_waiting', 'Generations that wait for a slot.', slots?.waiting() ?? 0),
      ]
      return `${lines.join('\n')}\n`
    },
  }
}

const metric = (kind) => (name, help, value) =>
  `# HELP muster_llama_${name} ${help}\n# TYPE muster_llama_${name} ${kind}\nmuster_llama_${name} ${value}`
const counter = metric('counter')
const gauge = metric('gauge')
