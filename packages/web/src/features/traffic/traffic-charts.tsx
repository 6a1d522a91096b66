// Live charts of the last hour. Loaded lazily, because of the chart library (see traffic-section.tsx).
import type { StatsBucket } from '@muster/protocol'
import { useMemo } from 'react'
import { Chart, type ChartProps, type Series } from '../../components/chart.tsx'
import { formatCount } from '../../format.ts'
import { chartHeight, type Traffic, trafficOf } from './traffic.pure.ts'

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
  const charts = useMemo(() => chartsOf(traffic), [traffic])
  return charts.map((chart) => <Chart key={chart.label} {...chart} times={traffic.times} format={rate} height={chartHeight} />)
}

function chartsOf({
  requests,
  tokens,
  errors,
  overloaded,
  clientErrors,
  inFlight,
}: Traffic): Pick<ChartProps, 'label' | 'series' | 'max'>[] {
  const single = (label: string, values: Series['values'], max: number) => ({ label, series: [{ label, color: '--ink', values }], max })
  return [
    single('Requests per second', requests, 1),
    single('Tokens per second', tokens, 10),
    {
      label: 'Errors per second',
      series: [
        { label: 'Errors', color: '--bad', values: errors },
        { label: 'Overloaded', color: '--wait', values: overloaded },
        { label: 'Client errors', color: '--soft', values: clientErrors, isDashed: true },
      ],
      max: 1,
    },
    single('In flight', inFlight, 4),
  ]
}
