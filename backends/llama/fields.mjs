// The fields of a request's body, each checked where it is read. Absent and null are the same: the default counts.
import { invalid } from './api-error.mjs'

export function numberOf(body, name, { min = -Infinity, max = Infinity, isInteger = false } = {}) {
  const value = body[name] ?? undefined
  if (value === undefined) return undefined
  const fits = isInteger ? Number.isSafeInteger(value) : Number.isFinite(value)
  if (fits && value >= min && value <= max) return value
  const limits = max === Infinity ? `at least ${min}` : `from ${min} to ${max}`
  throw invalid(`${name} must be ${isInteger ? 'a whole number' : 'a number'} ${limits}`, name)
}

export function flagOf(body, name) {
  const value = body[name] ?? false
  if (typeof value !== 'boolean') throw invalid(`${name} must be true or false`, name)
  return value
}

/** One text or a list of them; never an empty text, which would end every answer before it began. */
export function stopsOf(body) {
  const stops = [body.stop ?? []].flat()
  if (stops.length > 16 || !stops.every((stop) => typeof stop === 'string' && stop !== '' && stop.length <= 1_000))
    throw invalid('stop must be a text or a list of at most 16, each of 1 to 1000 characters', 'stop')
  return stops
}

export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
