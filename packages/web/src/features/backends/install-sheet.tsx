// Installs a backend from a gallery, or from a URI.
import { BackendName, InstallRequest } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { backendGalleryQuery } from '../../api/queries.ts'
import { TextField } from '../../components/field.tsx'
import { TargetsField, ChangeSheet } from './change-sheet.tsx'
import { useDryRun, useBackendFacts, useTargets, type BackendChange } from './backend-change.ts'

const allLabel = 'All compatible nodes'

export function InstallSheet({ name }: { readonly name: BackendName }) {
  const facts = useBackendFacts(name)
  const offer = useQuery(backendGalleryQuery).data?.backends.find((each) => each.name === name)
  const { selection, problem, ...field } = useTargets()
  const change: BackendChange | null = selection === null ? null : { kind: 'backend.install', body: { backend: name, ...selection } }
  const dryRun = useDryRun(change, facts.fingerprint)
  const version = offer === undefined || offer.version === '' ? '' : ` ${offer.version}`
  return (
    <ChangeSheet title={`Install ${name}${version}`} {...{ name, kind: 'backend.install', change, dryRun, facts, prompt: problem ?? '' }}>
      {offer !== undefined && offer.description !== '' && <p className="text-soft [overflow-wrap:anywhere]">{offer.description}</p>}
      <TargetsField {...field} {...{ problem, nodes: facts.nodes, allLabel, hasLabels: true }} />
    </ChangeSheet>
  )
}

const examples = 'oci://registry/name:tag, https://….tar.gz, or file:///dir on the node'

export function InstallFromUriSheet() {
  const [uri, setUri] = useState('')
  const [name, setName] = useState('')
  const facts = useBackendFacts(name)
  const { selection, problem, ...field } = useTargets()
  const parsed = selection === null ? null : InstallRequest.safeParse({ uri: uri.trim(), name: name.trim(), ...selection })
  const change: BackendChange | null = parsed?.success === true ? { kind: 'backend.install', body: parsed.data } : null
  const dryRun = useDryRun(change, facts.fingerprint)
  const nameError = name === '' ? null : (BackendName.safeParse(name.trim()).error?.issues[0]?.message ?? null)
  const uriError = / /.test(uri.trim()) ? 'A URI cannot contain spaces.' : null
  return (
    <ChangeSheet
      title="Install from URI"
      {...{ name: name.trim() || 'backend', kind: 'backend.install', change, dryRun, facts }}
      prompt={problem ?? 'Enter a URI and a name.'}
    >
      <TextField
        label="URI"
        value={uri}
        onChange={(event) => setUri(event.target.value)}
        hint={examples}
        error={uriError}
        spellCheck={false}
        autoComplete="off"
        className="font-mono"
      />
      <TextField
        label="Name"
        value={name}
        onChange={(event) => setName(event.target.value)}
        hint="Models refer to the backend by this name"
        error={nameError}
        spellCheck={false}
        autoComplete="off"
      />
      <TargetsField {...field} {...{ problem, nodes: facts.nodes, allLabel, hasLabels: true }} />
    </ChangeSheet>
  )
}
