// Labels of a node: what the worker reports, overridden by what an administrator sets, on top of
// what Muster knows by itself.
import { z } from 'zod'

export const automaticLabels = ['node.name', 'node.os', 'node.arch', 'gpu.vendor', 'gpu.vram'] as const

export const LabelKey = z
  .string()
  .regex(
    /^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?$/,
    'a label key is 1–128 characters of A–Z, a–z, 0–9 and . _ / -, beginning and ending with a letter or digit',
  )
export const LabelValue = z.string().regex(/^[^\p{C}\p{Zl}\p{Zp}]{0,255}$/u, 'a label value is at most 255 printable characters')

/** One that is not Muster's own. */
export const SettableLabelKey = LabelKey.refine((key) => !automaticLabels.some((automatic) => automatic === key), {
  error: (issue) => `${String(issue.input)} is set by Muster itself and can't be changed`,
})
const few = (labels: object): boolean => Object.keys(labels).length <= 64
const tooMany = 'a node has at most 64 labels'

export const Labels = z.record(SettableLabelKey, LabelValue).refine(few, tooMany)
export type Labels = z.infer<typeof Labels>

/** A change: null takes a label away. */
export const LabelPatch = z.record(SettableLabelKey, LabelValue.nullable()).refine(few, tooMany)
export type LabelPatch = z.infer<typeof LabelPatch>
