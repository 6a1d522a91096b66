// Which one of the fleet's objects is meant: by id, or by a name that only one of them has.
// An id always wins: a machine that takes another one's id as its name gets nothing by it.
import { CliError, usageError } from './cli-error.ts'
import { plainText } from './output/plain-text.ts'

export interface Named {
  readonly id: string
  readonly name: string
}

export function findByName<T extends Named>(kind: string, items: readonly T[], wanted: string): T {
  const byId = items.find((item) => item.id === wanted)
  if (byId !== undefined) return byId
  const byName = items.filter((item) => item.name === wanted)
  const [only, ...others] = byName
  const shown = plainText(wanted)
  if (only === undefined)
    throw new CliError(`no ${kind} has the id or name ${JSON.stringify(shown)}`, { hint: `\`muster ${kind}s ls\` lists all` })
  if (others.length > 0)
    throw usageError(
      `${byName.length} ${kind}s are called ${JSON.stringify(shown)}: name one by its id`,
      byName.map((item) => item.id).join('\n'),
    )
  return only
}
