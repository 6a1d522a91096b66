// A small time series chart: one axis, gaps where there is no data, exact values on hover.
import { useEffect, useLayoutEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'

export interface Series {
  readonly label: string
  /** A token of style.css, as `--work`. */
  readonly color: string
  readonly values: readonly (number | null)[]
  readonly isDashed?: boolean
}
export interface ChartProps {
  readonly label: string
  /** Unix seconds, ascending. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
  readonly height?: number
  /** Lowest upper bound of the axis; higher values extend it. */
  readonly max?: number
}

export function Chart(props: ChartProps) {
  const { label, series, height = 120, format } = props
  const last = series.map((each) => {
    const value = each.values.findLast((sample) => sample !== null)
    return `${each.label} ${value === undefined ? 'unknown' : format(value)}`
  })
  // Other series need a new plot; other values of the same series do not.
  const shape = series.map((each) => `${each.label} ${each.color}`).join()
  return (
    <figure className="min-w-0">
      <figcaption className="mb-1 text-[13px] text-soft">{label}</figcaption>
      <div role="img" aria-label={`${label}: latest ${last.join(', ')}`}>
        <Plot key={shape} {...props} height={height} />
      </div>
    </figure>
  )
}

function Plot(props: ChartProps & { readonly height: number }) {
  const container = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const latest = useRef(props)
  const { times, series, height } = props
  useLayoutEffect(() => {
    latest.current = props
  })
  useEffect(() => {
    const element = container.current
    if (element === null) return undefined
    const make = (): void => {
      plot.current?.destroy()
      plot.current = new uPlot(optionsOf(latest, element, height), dataOf(latest.current), element)
    }
    make()
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }))
    resized.observe(element)
    // Colors are resolved when the plot is created.
    const themed = new MutationObserver(make)
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] })
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', make)
    return () => {
      resized.disconnect()
      themed.disconnect()
      scheme.removeEventListener('change', make)
      plot.current?.destroy()
      plot.current = null
    }
  }, [height])
  useEffect(() => plot.current?.setData(dataOf({ times, series })), [times, series])
  return <div ref={container} className="min-w-0 overflow-hidden" style={{ height }} />
}

const dataOf = ({ times, series }: Pick<ChartProps, 'times' | 'series'>): uPlot.AlignedData => [
  [...times],
  ...series.map(({ values }) => [...values]),
]

const clockTime = (at: number): string => new Date(at * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false })

function optionsOf(latest: { readonly current: ChartProps }, element: HTMLElement, height: number): uPlot.Options {
  const token = (name: string): string => {
    // A canvas cannot use CSS variables, so the computed color is read.
    element.style.color = `var(${name})`
    return getComputedStyle(element).color
  }
  const { series, max = 0 } = latest.current
  const axis = { stroke: token('--soft'), grid: { stroke: token('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui' }
  return {
    width: element.clientWidth,
    height,
    // Half of the last time label is right of the last value.
    padding: [8, 18, 0, 0],
    legend: { show: true, live: true },
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    scales: { y: { range: (_, __, high) => [0, Math.max(high, max, 1e-9) * 1.05] } },
    axes: [
      { ...axis, size: 22, space: 70, values: (_, ticks) => ticks.map(clockTime) },
      { ...axis, size: 54, space: 28, values: (_, ticks) => ticks.map((tick) => latest.current.format(tick)) },
    ],
    series: [
      { value: (_, at) => (at === null ? '' : new Date(at * 1000).toLocaleTimeString()) },
      ...series.map((each) => ({
        label: each.label,
        stroke: token(each.color),
        width: 1.5,
        spanGaps: false,
        points: { show: false },
        ...(each.isDashed === true ? { dash: [4, 4] } : {}),
        value: (_: uPlot, value: number | null) => (value === null ? '–' : latest.current.format(value)),
      })),
    ],
  }
}
