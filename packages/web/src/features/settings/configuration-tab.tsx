// The effective settings of the controller that serves this page, and those that administrators change while controllers run.
import { type SettingChangeView, type SettingView, systemRoutes } from '@muster/protocol'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { call } from '../../api/client.ts'
import { settingChangesQuery, settingsQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { Form, SearchField, TextField } from '../../components/field.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { plural } from '../../format.ts'
import { chooseSettings, describeChange, isChanged, whyFixed } from './settings-words.pure.ts'

export function ConfigurationTab() {
  const settings = useQuery({ ...settingsQuery, refetchOnMount: 'always' })
  const { q = '' } = useSearch({ from: '/settings' })
  const navigate = useNavigate()
  const search = (text: string | undefined): void => void navigate({ to: '.', replace: true, search: (before) => ({ ...before, q: text }) })
  const changed = settings.data?.settings.filter(isChanged).length ?? 0
  return (
    <>
      <Section title="Configuration" actions={<SearchField label="Search settings" text={q} onType={search} />}>
        <p className="min-h-5 text-soft [overflow-wrap:anywhere]">
          {settings.data !== undefined &&
            `${plural(settings.data.settings.length, 'setting')} of controller ${settings.data.controller}, ${changed} changed from the default. Flags, environment and file are read at startup, in this order; settings with a Change button can be changed here for all controllers.`}
        </p>
        <Loaded query={settings} what="settings">
          {(all) => {
            const matching = chooseSettings(all.settings, q)
            return matching.length === 0 ? <Empty title="No settings match this search." /> : <SettingTable settings={matching} />
          }}
        </Loaded>
      </Section>
      <SettingChanges />
    </>
  )
}

function SettingTable({ settings }: { readonly settings: readonly SettingView[] }) {
  return (
    <Table label="Configuration" columns={['Setting', 'Value', 'Source']}>
      {settings.map((setting) => (
        <Row key={setting.flag} aria-label={`--${setting.flag}`}>
          <Cell className="min-w-56">
            <span className="font-mono">--{setting.flag}</span>
            <span className="block text-soft">{setting.description}</span>
          </Cell>
          <Cell className="min-w-44 [overflow-wrap:anywhere]">
            <span className={`font-mono ${isChanged(setting) ? 'font-semibold' : ''}`}>{setting.value === '' ? '–' : setting.value}</span>
            {isChanged(setting) && !setting.is_secret && (
              <span className="block text-soft">default {setting.default === '' ? '–' : setting.default}</span>
            )}
            {setting.is_runtime === true && setting.pinned_by === null && <ChangeSetting key={setting.value} setting={setting} />}
          </Cell>
          <Cell className="min-w-60 text-soft [overflow-wrap:anywhere]">
            {setting.from}
            {whyFixed(setting) !== null && <span className="block">{whyFixed(setting)}</span>}
          </Cell>
        </Row>
      ))}
    </Table>
  )
}

/** Closed until the button is pressed. */
function ChangeSetting({ setting }: { readonly setting: SettingView }) {
  const [typed, setTyped] = useState<string | null>(null)
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (value: string | null) => call(systemRoutes.changeSettings, { body: { [setting.flag]: value } }),
    onSuccess: async (answer) => {
      queries.setQueryData(settingsQuery.queryKey, answer)
      await queries.invalidateQueries({ queryKey: settingChangesQuery.queryKey })
      setTyped(null)
    },
  })
  if (typed === null)
    return (
      <span className="mt-1 flex gap-2">
        <Button aria-label={`Change ${setting.flag}`} onClick={() => setTyped(setting.value)}>
          Change
        </Button>
        {setting.from === 'an administrator' && (
          <Button aria-label={`Reset ${setting.flag}`} isBusy={change.isPending} onClick={() => change.mutate(null)}>
            Reset
          </Button>
        )}
      </span>
    )
  return (
    <Form className="mt-1 flex flex-wrap items-start gap-2" onSubmit={() => change.mutate(typed.trim())}>
      <TextField
        label={`New value of ${setting.flag}`}
        isLabelHidden
        className="w-40!"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        error={change.error?.message ?? null}
      />
      <Button type="submit" isBusy={change.isPending} disabled={typed.trim() === '' || typed.trim() === setting.value}>
        Save
      </Button>
      <Button onClick={() => setTyped(null)}>Cancel</Button>
    </Form>
  )
}

function SettingChanges() {
  const changes = useQuery({ ...settingChangesQuery, refetchOnMount: 'always' })
  return (
    <Section title="Changes">
      <Loaded query={changes} what="changes of settings">
        {(all) => (all.changes.length === 0 ? <Empty title="No setting was changed yet." /> : <ChangeTable changes={all.changes} />)}
      </Loaded>
    </Section>
  )
}

function ChangeTable({ changes }: { readonly changes: readonly SettingChangeView[] }) {
  return (
    <Table label="Changes of settings" columns={['Time', 'Setting', 'Change', 'By']}>
      {changes.map((change) => (
        <Row key={`${change.at} ${change.setting}`}>
          <Cell className="whitespace-nowrap">{new Date(change.at).toLocaleString()}</Cell>
          <Cell className="font-mono">--{change.setting}</Cell>
          <Cell className="[overflow-wrap:anywhere]">{describeChange(change)}</Cell>
          <Cell className="[overflow-wrap:anywhere]">{change.changed_by}</Cell>
        </Row>
      ))}
    </Table>
  )
}
