// Installing: one of a gallery, or one at an address that no gallery knows.
import { BackendName, InstallRequest } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { backendGalleryQuery } from '../../api/queries.ts'
import { TextField } from '../../components/field.tsx'
import { TargetsField, WishSheet } from './change-sheet.tsx'
import { everywhere, namedTargets, useDryRun, useFacts, type Wish } from './backend-change.ts'

const all = 'On every node that it fits'

export function InstallSheet({ name }: { readonly name: BackendName }) {
  const [targets, setTargets] = useState(everywhere)
  const facts = useFacts(name)
  const offer = useQuery(backendGalleryQuery).data?.backends.find((each) => each.name === name)
  const named = namedTargets(targets)
  const problem = 'problem' in named ? named.problem : null
  const wish: Wish | null = 'problem' in named ? null : { kind: 'backend.install', body: { backend: name, ...named } }
  const dry = useDryRun(wish, facts.world)
  const version = offer === undefined || offer.version === '' ? '' : ` ${offer.version}`
  return (
    <WishSheet title={`Install ${name}${version}`} {...{ name, kind: 'backend.install', wish, dry, facts, waitingFor: problem ?? '' }}>
      {offer !== undefined && offer.description !== '' && <p className="text-soft [overflow-wrap:anywhere]">{offer.description}</p>}
      <TargetsField {...{ targets, onChange: setTargets, nodes: facts.nodes, all, problem, hasLabels: true }} />
    </WishSheet>
  )
}

const examples = 'oci://registry/name:tag, https://….tar.gz, or file:///dir on the node itself.'

export function AddressSheet() {
  const [uri, setUri] = useState('')
  const [name, setName] = useState('')
  const [targets, setTargets] = useState(everywhere)
  const facts = useFacts(name)
  const named = namedTargets(targets)
  const problem = 'problem' in named ? named.problem : null
  const asked = 'problem' in named ? null : InstallRequest.safeParse({ uri: uri.trim(), name: name.trim(), ...named })
  const wish: Wish | null = asked?.success === true ? { kind: 'backend.install', body: asked.data } : null
  const dry = useDryRun(wish, facts.world)
  const wrongName = name === '' ? null : (BackendName.safeParse(name.trim()).error?.issues[0]?.message ?? null)
  const wrongUri = / /.test(uri.trim()) ? 'An address has no spaces.' : null
  return (
    <WishSheet
      title="Install from an address"
      {...{ name: name.trim() || 'it', kind: 'backend.install', wish, dry, facts }}
      waitingFor={problem ?? 'Fill in the address and the name.'}
    >
      <TextField
        label="Address"
        value={uri}
        onChange={(event) => setUri(event.target.value)}
        hint={examples}
        error={wrongUri}
        spellCheck={false}
        autoComplete="off"
        className="font-mono"
      />
      <TextField
        label="Name"
        value={name}
        onChange={(event) => setName(event.target.value)}
        hint="What models call it."
        error={wrongName}
        spellCheck={false}
        autoComplete="off"
      />
      <TargetsField {...{ targets, onChange: setTargets, nodes: facts.nodes, all, problem, hasLabels: true }} />
    </WishSheet>
  )
}
