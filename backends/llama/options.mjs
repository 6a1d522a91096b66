// The settings of this program: the environment that the worker sets, and the options of the model's configuration.
import { availableParallelism, loadavg } from 'node:os'

const known = {
  threads: wholeNumber(1, 1024),
  parallel: wholeNumber(1, 256),
  batch_size: wholeNumber(1, 65_536),
  gpu_layers: wholeNumber(0, 100_000),
  embeddings: (value) => (value === true || value === false ? null : 'true or false'),
  flash_attention: (value) => (value === true || value === false ? null : 'true or false'),
  mmap: (value) => (value === true || value === false ? null : 'true or false'),
}

/** The fields of `parameters` that are defaults for requests. `model` is given by its path. */
const requestFields = new Set(
  'temperature top_p top_k min_p seed max_tokens stop frequency_penalty presence_penalty repeat_penalty repeat_last_n'.split(' '),
)

/** Throws an error for the worker's log. */
export function readOptions(environment, log) {
  const { MUSTER_MODEL_NAME: name, MUSTER_MODEL_PATH: modelPath, MUSTER_CONTEXT_SIZE: contextText = '' } = environment
  if (!modelPath) throw new Error('MUSTER_MODEL_PATH must be the path of a GGUF file')
  const contextSize = contextText === '' ? null : Number(contextText)
  if (contextSize !== null && !(Number.isSafeInteger(contextSize) && contextSize >= 16))
    throw new Error(`MUSTER_CONTEXT_SIZE must be a whole number of tokens, at least 16, not ${JSON.stringify(contextText)}`)
  const options = parseObject(environment, 'MUSTER_MODEL_OPTIONS')
  const taken = {}
  for (const [given, value] of Object.entries(options)) {
    const option = given === 'sequences' ? 'parallel' : given
    if (!Object.hasOwn(known, option)) {
      log(`the option ${JSON.stringify(given)} is unknown to the llama backend and ignored`)
      continue
    }
    const expected = known[option](value)
    if (expected !== null) throw new Error(`the option ${given} must be ${expected}, not ${JSON.stringify(value)}`)
    taken[option] = value
  }
  const defaults = defaultsIn(parseObject(environment, 'MUSTER_MODEL_PARAMETERS'), log)
  return { name: name || 'llama', modelPath, contextSize, ...taken, threads: taken.threads ?? freeCores(), defaults }
}

/**
 * Threads that wait for each other make a busy machine slower, not faster: one more than there are free cores was seen to
 * cost two orders of magnitude. Affinity and quota of a container count; so does what ran in the last minute.
 */
function freeCores(cores = availableParallelism(), load = loadavg()[0]) {
  return Math.max(1, Math.min(cores, Math.round(cores - load)))
}

/** `model` is the file, which MUSTER_MODEL_PATH names. */
function defaultsIn(parameters, log) {
  for (const name of Object.keys(parameters).filter((each) => each !== 'model' && !requestFields.has(each)))
    log(`the parameter ${JSON.stringify(name)} is unknown to the llama backend and ignored`)
  return Object.fromEntries(Object.entries(parameters).filter(([name]) => requestFields.has(name)))
}

function parseObject(environment, name) {
  let value
  try {
    value = JSON.parse(environment[name] || '{}')
  } catch {
    value = null
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new Error(`${name} must be a JSON object`)
}

function wholeNumber(min, max) {
  return (value) => (Number.isSafeInteger(value) && value >= min && value <= max ? null : `a whole number from ${min} to ${max}`)
}
