import { Dialog } from '../components/dialog.tsx'
import { shortcuts } from './keyboard.ts'

export function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard" place="sheet" onClose={onClose}>
      <dl className="grid grid-cols-[5rem_1fr] gap-y-1.5">
        {shortcuts.map(([keys, does]) => (
          <div key={keys} className="contents">
            <dt className="font-mono">{keys}</dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
