// Labels and limits of a node.
import { useMutation, type UseMutationResult } from '@tanstack/react-query'
import { useState } from 'react'
import { automaticLabels, formatBytes, nodeRoutes, type NodeView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Form, TextField } from '../../components/field.tsx'
import { Section } from '../../components/page.tsx'

const isAutomatic = (key: string): boolean => automaticLabels.some((automatic) => automatic === key)

function useLabelChange(node: NodeView) {
  return useMutation({
    mutationFn: (patch: Readonly<Record<string, string | null>>) =>
      call(nodeRoutes.patchLabels, { params: { id: node.id }, body: { ...patch } }),
  })
}

export function NodeLabels({ node }: { readonly node: NodeView }) {
  const labels = Object.entries(node.labels)
  const own = labels.filter(([key]) => !isAutomatic(key))
  return (
    <Section title="Labels">
      <p className="text-soft">Models select nodes by label.</p>
      <ul aria-label="Labels" className="flex max-w-2xl flex-col divide-y rounded-md border bg-raised">
        {labels
          .filter(([key]) => isAutomatic(key))
          .map(([key, value]) => (
            <li key={key} className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)_6rem] gap-2 px-3 py-1.5">
              <span className="font-mono [overflow-wrap:anywhere]">{key}</span>
              <span className="font-mono [overflow-wrap:anywhere]">{value}</span>
              <span className="text-right text-soft">automatic</span>
            </li>
          ))}
        {own.map(([key, value]) => (
          // A value changed elsewhere resets the field.
          <OwnLabel key={`${key}=${value}`} node={node} label={key} value={value} />
        ))}
      </ul>
      <NewLabel node={node} />
    </Section>
  )
}

function OwnLabel({ node, label, value }: { readonly node: NodeView; readonly label: string; readonly value: string }) {
  const [typed, setTyped] = useState(value)
  const change = useLabelChange(node)
  return (
    <li className="px-3 py-1.5">
      <Form
        className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)_6rem] items-start gap-2"
        onSubmit={() => change.mutate({ [label]: typed })}
      >
        <span className="font-mono [overflow-wrap:anywhere]">{label}</span>
        <TextField
          label={`Value of ${label}`}
          isLabelHidden
          className="font-mono"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
          error={change.error?.message ?? null}
        />
        <span className="flex justify-end gap-1">
          {typed === value ? (
            <Button look="bare" isBusy={change.isPending} aria-label={`Remove ${label}`} onClick={() => change.mutate({ [label]: null })}>
              Remove
            </Button>
          ) : (
            <Button type="submit" isBusy={change.isPending} aria-label={`Save ${label}`}>
              Save
            </Button>
          )}
        </span>
      </Form>
    </li>
  )
}

function NewLabel({ node }: { readonly node: NodeView }) {
  const [typed, setTyped] = useState({ key: '', value: '' })
  const change = useLabelChange(node)
  return (
    <Form
      aria-label="New label"
      className="grid max-w-2xl grid-cols-[minmax(0,2fr)_minmax(0,3fr)_6rem] items-end gap-2 px-3"
      onSubmit={() => change.mutate({ [typed.key.trim()]: typed.value }, { onSuccess: () => setTyped({ key: '', value: '' }) })}
    >
      <TextField
        label="New label"
        placeholder="rack"
        className="font-mono"
        value={typed.key}
        onChange={(event) => setTyped({ ...typed, key: event.target.value })}
      />
      <TextField
        label="New value"
        placeholder="b2"
        className="font-mono"
        value={typed.value}
        onChange={(event) => setTyped({ ...typed, value: event.target.value })}
      />
      <span className="flex justify-end">
        <Button type="submit" isBusy={change.isPending} disabled={typed.key.trim() === ''}>
          Add
        </Button>
      </span>
      {change.error !== null && (
        <p role="alert" className="col-span-3 text-bad [overflow-wrap:anywhere]">
          {change.error.message}
        </p>
      )}
    </Form>
  )
}

export function VramBudget({ node }: { readonly node: NodeView }) {
  const { total_vram: total } = node.resources
  return (
    <Section title="GPU memory budget">
      <p className="text-soft">
        {total === null || total === 0
          ? 'No GPU detected; a budget has no effect.'
          : (node.limits?.vram_budget ?? node.vram_budget) === null
            ? `Models may use all ${formatBytes(total)}.`
            : `Models may use ${formatBytes(total)} (${node.limits?.vram_budget?.value ?? node.vram_budget}).`}
        {node.limits?.vram_budget?.from === 'worker' && ` The worker was started with --vram-budget ${node.limits.vram_budget.value}.`}
      </p>
      <BudgetForm key={node.vram_budget} node={node} />
    </Section>
  )
}

function BudgetForm({ node }: { readonly node: NodeView }) {
  const params = { id: node.id }
  const change = useMutation({
    mutationFn: (value: string | null) =>
      value === null ? call(nodeRoutes.deleteVramBudget, { params }) : call(nodeRoutes.putVramBudget, { params, body: { value } }),
  })
  return <LimitForm word="budget" label="Budget" placeholder="80% or 12GB" current={node.vram_budget} change={change} />
}

export function ReplicasPerModel({ node }: { readonly node: NodeView }) {
  const params = { id: node.id }
  const inEffect = node.limits?.max_replicas_per_model ?? null
  const current = node.max_replicas_per_model ?? null
  const change = useMutation({
    mutationFn: (value: string | null) =>
      value === null
        ? call(nodeRoutes.deleteMaxReplicasPerModel, { params })
        : call(nodeRoutes.putMaxReplicasPerModel, { params, body: { value: Number(value) } }),
  })
  return (
    <Section title="Replicas of one model">
      <p className="text-soft">
        {inEffect === null
          ? 'This node runs any number of replicas of a model.'
          : `This node runs at most ${inEffect.value} of each model.${inEffect.from === 'worker' ? ' The worker was started with this limit.' : ''}`}
      </p>
      <LimitForm
        key={current}
        word="limit"
        label="Most replicas of one model"
        placeholder="1"
        current={current === null ? null : String(current)}
        change={change}
      />
    </Section>
  )
}

interface LimitFormProps {
  readonly word: string
  readonly label: string
  readonly placeholder: string
  /** The limit that an administrator set. */
  readonly current: string | null
  readonly change: UseMutationResult<unknown, Error, string | null>
}

function LimitForm({ word, label, placeholder, current, change }: LimitFormProps) {
  const [typed, setTyped] = useState(current ?? '')
  return (
    <Form className="flex max-w-2xl flex-wrap items-start gap-2" onSubmit={() => change.mutate(typed.trim())}>
      <TextField
        label={label}
        isLabelHidden
        placeholder={placeholder}
        className="w-40!"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        error={change.error?.message ?? null}
      />
      <Button type="submit" isBusy={change.isPending} disabled={typed.trim() === '' || typed.trim() === current}>
        Set {word}
      </Button>
      {current !== null && (
        <Button isBusy={change.isPending} onClick={() => change.mutate(null)}>
          Remove {word}
        </Button>
      )}
    </Form>
  )
}
