// How much of a node's GPU memory Muster may use.
import { nodeRoutes, type NodeView } from '@muster/protocol'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { TextField } from '../../components/field.tsx'
import { Section } from '../../components/page.tsx'
import { formatBytes } from '../../format/amounts.ts'

export function VramBudget({ node }: { readonly node: NodeView }) {
  const { total_vram: total } = node.resources
  return (
    <Section title="GPU memory budget">
      <p className="text-soft">
        {total === null || total === 0
          ? 'It has no GPU that Muster knows of, so a budget has no effect now.'
          : node.vram_budget === null
            ? `Models may use all of its ${formatBytes(total)}.`
            : `Models may use ${formatBytes(total)} of it (${node.vram_budget}).`}
      </p>
      <BudgetForm key={node.vram_budget} node={node} />
    </Section>
  )
}

function BudgetForm({ node }: { readonly node: NodeView }) {
  const params = { id: node.id }
  const [typed, setTyped] = useState(node.vram_budget ?? '')
  const change = useMutation({
    mutationFn: (value: string | null) =>
      value === null ? call(nodeRoutes.deleteVramBudget, { params }) : call(nodeRoutes.putVramBudget, { params, body: { value } }),
  })
  return (
    <form
      className="flex max-w-2xl flex-wrap items-start gap-2"
      onSubmit={(event) => {
        event.preventDefault()
        change.mutate(typed.trim())
      }}
    >
      <TextField
        label="Budget"
        isLabelHidden
        placeholder="80% or 12GB"
        className="w-40!"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        error={change.error?.message ?? null}
      />
      <Button type="submit" isBusy={change.isPending} disabled={typed.trim() === '' || typed.trim() === node.vram_budget}>
        Set the budget
      </Button>
      {node.vram_budget !== null && (
        <Button isBusy={change.isPending} onClick={() => change.mutate(null)}>
          Remove it
        </Button>
      )}
    </form>
  )
}
