// The effective settings of the controller that serves this page.
import type { SettingView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { settingsQuery } from '../../api/queries.ts'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { SearchField } from '../../components/field.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { plural } from '../../format.ts'
import { chooseSettings, isChanged } from './settings-words.pure.ts'

export function ConfigurationTab() {
  const settings = useQuery({ ...settingsQuery, refetchOnMount: 'always' })
  const { q = '' } = useSearch({ from: '/settings' })
  const navigate = useNavigate()
  const search = (text: string | undefined): void => void navigate({ to: '.', replace: true, search: (before) => ({ ...before, q: text }) })
  const changed = settings.data?.settings.filter(isChanged).length ?? 0
  return (
    <Section title="Configuration" actions={<SearchField label="Search settings" text={q} onType={search} />}>
      <p className="min-h-5 text-soft [overflow-wrap:anywhere]">
        {settings.data !== undefined &&
          `${plural(settings.data.settings.length, 'setting')} of controller ${settings.data.controller}, ${changed} changed from the default. Read at startup from flags, environment and file, in this order.`}
      </p>
      <Loaded query={settings} what="settings">
        {(all) => {
          const matching = chooseSettings(all.settings, q)
          return matching.length === 0 ? <Empty title="No settings match this search." /> : <SettingTable settings={matching} />
        }}
      </Loaded>
    </Section>
  )
}

function SettingTable({ settings }: { readonly settings: readonly SettingView[] }) {
  return (
    <Table label="Configuration" columns={['Setting', 'Value', 'Source']}>
      {settings.map((setting) => (
        <Row key={setting.flag}>
          <Cell className="min-w-56">
            <span className="font-mono">--{setting.flag}</span>
            <span className="block text-soft">{setting.description}</span>
          </Cell>
          <Cell className="min-w-44 [overflow-wrap:anywhere]">
            <span className={`font-mono ${isChanged(setting) ? 'font-semibold' : ''}`}>{setting.value === '' ? '–' : setting.value}</span>
            {isChanged(setting) && !setting.is_secret && (
              <span className="block text-soft">default {setting.default === '' ? '–' : setting.default}</span>
            )}
          </Cell>
          <Cell className="min-w-60 text-soft [overflow-wrap:anywhere]">{setting.from}</Cell>
        </Row>
      ))}
    </Table>
  )
}
