// A few further things to do, behind one button. The browser's own popover: it stands above everything, escape and a
// click elsewhere close it, and whatever clips or scrolls around the button does not clip it.
import { useId, useRef, useState, type ReactNode, type ToggleEvent } from 'react'
import { Button } from './button.tsx'

export interface MenuProps {
  /** Names the button for those who listen: `Actions of gpu-1`. */
  readonly label: string
  readonly children: ReactNode
}

export function Menu({ label, children }: MenuProps) {
  const id = useId()
  const anchor = useRef<HTMLSpanElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const [isOpen, setOpen] = useState(false)
  const place = (event: ToggleEvent<HTMLDivElement>): void => {
    if (event.newState !== 'open' || anchor.current === null || list.current === null) return setOpen(false)
    const { right, bottom } = anchor.current.getBoundingClientRect()
    list.current.style.top = `${bottom + 4}px`
    list.current.style.right = `${document.documentElement.clientWidth - right}px`
    setOpen(true)
  }
  return (
    <span ref={anchor} className="inline-flex">
      <Button look="bare" aria-label={label} title={label} popoverTarget={id}>
        ⋯
      </Button>
      <div
        ref={list}
        id={id}
        popover="auto"
        onBeforeToggle={place}
        className="fixed inset-auto m-0 min-w-36 rounded-md border bg-raised p-1 text-ink shadow-lg"
      >
        {/* Hundreds of rows have one each: what nobody opened is not there. */}
        {isOpen && (
          // Whatever was chosen, it is done with.
          // oxlint-disable-next-line jsx-a11y/no-static-element-interactions
          <div className="flex flex-col" onClick={() => list.current?.hidePopover()}>
            {children}
          </div>
        )}
      </div>
    </span>
  )
}

export function MenuItem({ children, onChoose }: { readonly children: string; readonly onChoose: () => void }) {
  return (
    <Button look="bare" className="justify-start! text-ink" onClick={onChoose}>
      {children}
    </Button>
  )
}
