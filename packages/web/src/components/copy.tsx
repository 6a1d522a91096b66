// What can be copied: short ids with the whole of them behind a click, and commands to paste.
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

/** Without https a browser has no clipboard to write to; a selection can still be copied. Whether it was. */
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
  // Behind a modal dialog nothing can be selected: it has to be inside of the one that is open.
  const place = [...document.querySelectorAll('dialog:modal')].at(-1) ?? document.body
  place.append(area)
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (before instanceof HTMLElement) before.focus()
  return isCopied
}

/** An id or a digest: eight characters, all of it in the tooltip and on the clipboard. */
export function ShortId({ id, what = 'id' }: { readonly id: string; readonly what?: string }) {
  const [isCopied, copy] = useCopied()
  return (
    <button
      type="button"
      title={`${id}: click to copy`}
      aria-label={`${isCopied ? 'copied' : shortId(id)}: copy ${what}`}
      onClick={() => copy(id)}
      className="rounded-md font-mono text-soft hover:text-ink"
    >
      {isCopied ? 'copied' : shortId(id)}
    </button>
  )
}

/** A command, or code, to paste elsewhere. */
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
