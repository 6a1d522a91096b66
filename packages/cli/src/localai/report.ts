// Renders the report of an import: every item, every loss, and the counts.
import { type Column, renderTable } from '../output/table.ts'
import { plainText } from '../output/text.ts'
import type { ImportReport, Item } from './import-item.ts'
import type { Loss } from './site.ts'

const itemColumns: Column<Item>[] = [
  { heading: 'KIND', cell: ({ kind }) => kind },
  { heading: 'NAME', cell: ({ name }) => name },
  { heading: 'RESULT', cell: ({ outcome }) => outcome },
  { heading: 'DETAIL', cell: ({ message }) => message, shrinks: true },
]

const lossColumns: Column<Loss>[] = [
  { heading: 'NOT IMPORTED', cell: ({ about }) => about },
  { heading: 'KEY', cell: ({ key }) => key },
  { heading: 'WHY', cell: ({ message }) => message, shrinks: true },
]

const kinds: Readonly<Record<Item['kind'], string>> = {
  gallery: 'galleries',
  backend: 'backends',
  model: 'models',
  scheduling: 'scheduling rules',
  node: 'nodes',
  key: 'keys',
}

/** `models: 9 created, 1 refused`. */
export function countItems(items: readonly Item[]): Readonly<Record<string, Readonly<Record<string, number>>>> {
  const counts: Record<string, Record<string, number>> = {}
  for (const { kind, outcome } of items) {
    const ofKind = (counts[kind] ??= {})
    ofKind[outcome] = (ofKind[outcome] ?? 0) + 1
  }
  return counts
}

export function renderReport({ source, dry_run: isDryRun, items, losses }: ImportReport, width: number | null): string {
  const lines = Object.entries(countItems(items)).map(([kind, outcomes]) => {
    const each = Object.entries(outcomes).map(([outcome, count]) => `${count} ${outcome}`)
    return `${kind in kinds ? kinds[kind as Item['kind']] : kind}: ${each.join(', ')}`
  })
  const isChanged = items.some(({ outcome }) => outcome === 'created' || outcome === 'changed')
  const verdict = isDryRun ? 'Dry run: nothing was changed.' : isChanged ? plainText(`Imported ${source}.`) : 'Nothing changed.'
  return [
    ...(items.length === 0 ? [] : [renderTable(itemColumns, items, width), '']),
    ...(losses.length === 0 ? [] : [renderTable(lossColumns, losses, width), '']),
    ...lines,
    `${losses.length} ${losses.length === 1 ? 'part was' : 'parts were'} not imported.`,
    verdict,
  ].join('\n')
}

/** True when every part of the site is in the fleet, or was left out on purpose. */
export const isComplete = ({ items }: ImportReport): boolean => items.every(({ outcome }) => outcome !== 'refused' && outcome !== 'failed')
