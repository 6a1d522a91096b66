// Four charts of a node's last hour. Events extend them without another request.
import { formatBytes, formatBytesOf, type NodeView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useMemo, type ReactNode } from 'react'
import type { NodeHistory } from '../../api/live-change.pure.ts'
import { nodeHistoryQuery } from '../../api/queries.ts'
import { Chart, type ChartProps, type Series } from '../../components/chart.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { useNow } from '../../components/time.tsx'
import { formatCount } from '../../format.ts'
import { hourOf } from './node-hour.pure.ts'

const height = 110

export function ResourceCharts({ node }: { readonly node: NodeView }) {
  const history = useQuery(nodeHistoryQuery(node.id))
  return (
    <section aria-label="Resources over the last hour" className="min-h-72 md:min-h-36">
      <Loaded query={history} what="resource history">
        {(samples) => <Charts node={node} history={samples} />}
      </Loaded>
    </section>
  )
}

function Charts({ node, history }: { readonly node: NodeView; readonly history: NodeHistory }) {
  const { total_ram: ram, total_vram: vram, total_disk: disk, unified_memory: isUnified } = node.resources
  // The charts advance by one interval also without new samples.
  const now = Math.floor(useNow() / 15_000) * 15_000
  const hour = useMemo(() => hourOf(history, { total_ram: ram, total_vram: vram, total_disk: disk }, now), [history, ram, vram, disk, now])
  const budget = node.vram_budget
  const lines = useMemo(
    () => ({
      ram: [line('RAM', hour.ram)],
      vram: [line('VRAM', hour.vram), ...(budget === null || vram === null ? [] : [budgetLine(budget, vram, hour.times.length)])],
      disk: [line('disk', hour.disk)],
      inFlight: [line('in flight', hour.inFlight)],
    }),
    [hour, budget, vram],
  )
  return (
    <div className="grid grid-cols-2 gap-4 xl:grid-cols-4">
      <Bytes label={usageLabel('RAM', ram, hour.ram)} total={ram} times={hour.times} series={lines.ram} />
      {vram === null || vram === 0 ? (
        <NoChart label="VRAM">No GPU</NoChart>
      ) : (
        <Bytes
          label={`${usageLabel(isUnified ? 'VRAM (shared with RAM)' : 'VRAM', vram, hour.vram)}${budget === null ? '' : `, budget ${budget}`}`}
          total={vram}
          times={hour.times}
          series={lines.vram}
        />
      )}
      <Bytes label={usageLabel('Disk', disk, hour.disk)} total={disk} times={hour.times} series={lines.disk} />
      <Chart
        label={`In flight: ${formatCount(node.in_flight)}`}
        times={hour.times}
        series={lines.inFlight}
        format={formatCount}
        height={height}
        max={4}
      />
    </div>
  )
}

const line = (label: string, values: readonly (number | null)[]): Series => ({ label, color: '--ink', values })
const budgetLine = (budget: string, bytes: number, length: number): Series => ({
  ...{ label: `budget ${budget}`, color: '--wait', isDashed: true },
  values: Array.from({ length }, () => bytes),
})

function usageLabel(name: string, total: number | null, values: readonly (number | null)[]): string {
  const last = values.findLast((value) => value !== null)
  return total === null || last === undefined ? name : `${name}: ${formatBytesOf(last, total)}`
}

function Bytes({ total, ...chart }: Pick<ChartProps, 'label' | 'times' | 'series'> & { total: number | null }) {
  return <Chart {...chart} format={formatBytes} height={height} {...(total === null ? {} : { max: total })} />
}

function NoChart({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    <figure className="min-w-0">
      <figcaption className="mb-1 text-[13px] text-soft">{label}</figcaption>
      <p className="flex items-center justify-center rounded-md border border-dashed text-soft" style={{ height }}>
        {children}
      </p>
    </figure>
  )
}
