// Version, database, bus and controllers of this installation, and the theme of the page.
import { formatDuration, type ResponseOf, type systemRoutes } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { statusQuery } from '../../api/queries.ts'
import { chooseTheme, useTheme, type Theme } from '../../components/storage.ts'
import { Button } from '../../components/button.tsx'
import { ShortId } from '../../components/copy.tsx'
import { Cell, Fact, Facts, Row, Table } from '../../components/table.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { Pill } from '../../components/state.tsx'
import { When } from '../../components/time.tsx'
import { describeBus } from './settings-words.pure.ts'

type Status = ResponseOf<typeof systemRoutes.status>

export function AboutTab() {
  const status = useQuery({ ...statusQuery, refetchOnMount: 'always' })
  return (
    <>
      <Loaded query={status} what="status">
        {(about) => (
          <>
            <Installation about={about} />
            <Section
              title="Controllers"
              actions={
                <Button isBusy={status.isFetching} onClick={() => void status.refetch()}>
                  Refresh
                </Button>
              }
            >
              <Controllers about={about} />
            </Section>
          </>
        )}
      </Loaded>
      <ThemeChoice />
    </>
  )
}

function Installation({ about }: { readonly about: Status }) {
  const bus = describeBus(about.bus)
  return (
    <Facts>
      <Fact name="Version">{about.version}</Fact>
      <Fact name="Database">PostgreSQL {about.database.version}</Fact>
      <Fact name="Bus">
        <Pill tone={bus.tone}>{bus.word}</Pill>
        <span className="block text-soft">{bus.sentence}</span>
      </Fact>
      <Fact name="API">
        <a href="/api/openapi.json" className="underline underline-offset-2">
          /api/openapi.json
        </a>{' '}
        <span className="text-soft">OpenAPI description</span>
      </Fact>
    </Facts>
  )
}

function Controllers({ about: { controllers, database } }: { readonly about: Status }) {
  return (
    <Table label="Controllers" columns={['ID', 'Address', 'Version', 'Started', 'Last seen']}>
      {controllers.map((controller) => (
        <Row key={controller.id}>
          <Cell>
            <ShortId id={controller.id} what="controller ID" />
          </Cell>
          <Cell className="min-w-40 [overflow-wrap:anywhere]">{controller.url}</Cell>
          <Cell>{controller.version}</Cell>
          <Cell>
            <When at={controller.started_at} />
          </Cell>
          {/* By the database's clock when the status was read; no event updates it. */}
          <Cell className="whitespace-nowrap">
            {formatDuration(Date.parse(database.now) - Date.parse(controller.last_seen_at))} before refresh
          </Cell>
        </Row>
      ))}
    </Table>
  )
}

const themes: readonly (readonly [Theme, string])[] = [
  ['system', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
]

function ThemeChoice() {
  const theme = useTheme()
  return (
    <fieldset className="flex flex-wrap gap-x-6 gap-y-1.5">
      <legend className="mb-1 font-semibold">Theme</legend>
      {themes.map(([each, label]) => (
        <label key={each} className="flex items-baseline gap-2">
          <input type="radio" name="theme" checked={each === theme} onChange={() => chooseTheme(each)} />
          {label}
        </label>
      ))}
    </fieldset>
  )
}
