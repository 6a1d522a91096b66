// Live charts of the last hour. Loaded lazily, because of the chart library (see traffic-section.tsx).
import type { StatsBucket } from '@muster/protocol'
import { useMemo } from 'react'
import { Chart, type ChartProps, type Series } from '../../components/chart.tsx'
import { formatCount } from '../../format.ts'
import { chartHeight, trafficOf } from './traffic.pure.ts'

export interface TrafficChartsProps {
  readonly buckets: readonly StatsBucket[]
  /** Start of the oldest controller. */
  readonly since: number
  /** Rounded to ten seconds, the interval of new data. */
  readonly now: number
}

const rate = (value: number): string => (value > 0 && value < 1 ? value.toFixed(value < 0.1 ? 2 : 1) : formatCount(value))

export function TrafficCharts({ buckets, since, now }: TrafficChartsProps) {
  const traffic = useMemo(() => trafficOf(buckets, { now, since }), [buckets, since, now])
  const charts = useMemo(
    () => [
      { label: 'Requests per second', color: '--ink', values: traffic.requests, max: 1 },
      { label: 'Tokens per second', color: '--ink', values: traffic.tokens, max: 10 },
      { label: 'Errors per second', color: '--bad', values: traffic.errors, max: 1 },
      { label: 'In flight', color: '--ink', values: traffic.inFlight, max: 4 },
    ],
    [traffic],
  )
  return charts.map((chart) => <TrafficChart key={chart.label} {...chart} times={traffic.times} />)
}

function TrafficChart({ label, color, values, ...rest }: Series & Pick<ChartProps, 'times' | 'max'>) {
  const series = useMemo(() => [{ label, color, values }], [label, color, values])
  return <Chart label={label} series={series} format={rate} height={chartHeight} {...rest} />
}
