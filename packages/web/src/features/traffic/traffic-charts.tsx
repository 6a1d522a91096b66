// Live charts of the last hour. Loaded lazily, because of the chart library (see traffic-section.tsx).
import type { StatsBucket } from '@muster/protocol'
import { useMemo } from 'react'
import { Chart } from '../../components/chart.tsx'
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
  const { times } = traffic
  const charts = useMemo(
    () => [
      { label: 'Requests per second', color: '--ink', values: traffic.requests, max: 1 },
      { label: 'Tokens per second', color: '--ink', values: traffic.tokens, max: 10 },
      { label: 'Errors per second', color: '--bad', values: traffic.errors, max: 1 },
      { label: 'In flight', color: '--ink', values: traffic.inFlight, max: 4 },
    ],
    [traffic],
  )
  return charts.map(({ label, color, values, max }) => (
    <TrafficChart key={label} label={label} color={color} values={values} times={times} max={max} />
  ))
}

interface TrafficChartProps {
  readonly label: string
  readonly color: string
  readonly times: readonly number[]
  readonly values: readonly (number | null)[]
  readonly max: number
}

function TrafficChart({ label, color, times, values, max }: TrafficChartProps) {
  const series = useMemo(() => [{ label, color, values }], [label, color, values])
  return <Chart label={label} times={times} series={series} format={rate} max={max} height={chartHeight} />
}
