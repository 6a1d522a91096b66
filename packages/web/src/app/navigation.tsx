// Links to all pages, each with its number of items and a mark when one of them needs attention.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { backendsQuery, modelsQuery, nodesQuery, operationsQuery, upgradesQuery } from '../api/queries.ts'

export function Navigation() {
  const nodes = useQuery(nodesQuery).data
  const backends = useQuery(backendsQuery).data
  const models = useQuery(modelsQuery).data
  const operations = useQuery(operationsQuery('active')).data
  const upgrades = Object.keys(useQuery(upgradesQuery).data?.upgrades ?? {}).length
  const unhealthy = nodes?.filter(({ status }) => status !== 'healthy' && status !== 'draining').length ?? 0
  const failed = models?.filter(({ state }) => state === 'failed').length ?? 0
  return (
    <nav
      aria-label="Pages"
      className="relative flex gap-1 px-2 py-2 max-md:flex-col md:overflow-x-auto lg:w-44 lg:flex-col lg:overflow-visible lg:py-3"
    >
      <NavLink to="/" name="Overview" />
      <NavLink
        to="/nodes"
        name="Nodes"
        count={nodes?.length}
        mark={unhealthy > 0 ? `▲${unhealthy}` : ''}
        hint={`${unhealthy} ${unhealthy === 1 ? 'needs' : 'need'} attention`}
      />
      <NavLink
        to="/backends"
        name="Backends"
        count={backends?.length}
        mark={upgrades > 0 ? `⇡${upgrades}` : ''}
        hint={`${upgrades} with updates`}
      />
      <NavLink to="/models" name="Models" count={models?.length} mark={failed > 0 ? `▲${failed}` : ''} hint={`${failed} failed to load`} />
      <NavLink to="/operations" name="Operations" count={operations?.length} />
      <NavLink to="/playground" name="Playground" />
      <NavLink to="/settings" name="Settings" />
    </nav>
  )
}

interface NavLinkProps {
  readonly to: string
  readonly name: string
  readonly count?: number | undefined
  readonly mark?: string
  readonly hint?: string
}

function NavLink({ to, name, count, mark = '', hint = '' }: NavLinkProps) {
  return (
    <Link
      to={to}
      activeOptions={{ exact: to === '/' }}
      activeProps={{ className: 'bg-sunken text-ink font-medium', 'aria-current': 'page' }}
      inactiveProps={{ className: 'text-soft hover:text-ink' }}
      className="flex items-baseline gap-2 rounded-md px-2.5 py-1 whitespace-nowrap max-md:py-2"
    >
      <span className="max-md:flex-1 lg:flex-1">{name}</span>
      {count !== undefined && count > 0 && <span className="font-normal text-soft">{count}</span>}
      {mark !== '' && (
        <span title={hint} className="font-normal text-wait">
          <span aria-hidden>{mark}</span>
          <span className="sr-only">{hint}</span>
        </span>
      )}
    </Link>
  )
}
