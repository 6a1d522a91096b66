// Texts to copy: shortened IDs, and blocks of commands or code.
import { useEffect, useState } from 'react'
import { shortId } from '../format.ts'
import { Button } from './button.tsx'

export function useCopied(): [isCopied: boolean, copy: (text: string) => void] {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return undefined
    const timer = setTimeout(() => setCopied(false), 1_500)
    return () => clearTimeout(timer)
  }, [isCopied])
  return [isCopied, (text) => void writeClipboard(text).then(setCopied)]
}

/** Without HTTPS there is no clipboard API; copying a selection still works. Returns whether the text was copied. */
async function writeClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copySelection(text)
  }
}

function copySelection(text: string): boolean {
  const area = Object.assign(document.createElement('textarea'), { value: text })
  const before = document.activeElement
  // With a modal dialog open, only text inside it can be selected.
  const parent = [...document.querySelectorAll('dialog:modal')].at(-1) ?? document.body
  parent.append(area)
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (before instanceof HTMLElement) before.focus()
  return isCopied
}

/** The first eight characters of an ID or digest; a click copies all of it. */
export function ShortId({ id, what = 'ID' }: { readonly id: string; readonly what?: string }) {
  const [isCopied, copy] = useCopied()
  return (
    <button
      type="button"
      title={`${id} (click to copy)`}
      aria-label={`${isCopied ? 'copied' : shortId(id)}: copy ${what}`}
      onClick={() => copy(id)}
      className="rounded-md font-mono text-soft hover:text-ink"
    >
      {isCopied ? 'copied' : shortId(id)}
    </button>
  )
}

export function CopyBlock({ text, label }: { readonly text: string; readonly label: string }) {
  const [isCopied, copy] = useCopied()
  return (
    <div className="relative rounded-md border bg-sunken">
      <pre
        tabIndex={0}
        aria-label={label}
        className="overflow-x-auto p-3 pr-20 font-mono text-[13px] whitespace-pre-wrap [overflow-wrap:anywhere]"
      >
        {text}
      </pre>
      <Button look="plain" className="absolute top-2 right-2" onClick={() => copy(text)} aria-label={`Copy ${label}`}>
        {isCopied ? 'Copied' : 'Copy'}
      </Button>
    </div>
  )
}
