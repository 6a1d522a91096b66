// Which sheet is open is in the address: `wish` says what, `backend` which one.
import { BackendName } from '@muster/protocol'
import { AddressSheet, InstallSheet } from './install-sheet.tsx'
import { DeleteSheet } from './delete-sheet.tsx'
import { UpgradeAllSheet } from './upgrade-all-sheet.tsx'
import { UpgradeSheet } from './upgrade-sheet.tsx'

export function BackendSheets({ wish, backend }: { readonly wish: string | undefined; readonly backend: string | undefined }) {
  if (wish === 'upgrade-all') return <UpgradeAllSheet />
  if (wish === 'install' && backend === undefined) return <AddressSheet />
  const name = BackendName.safeParse(backend).data
  if (name === undefined) return null
  // Another backend is another sheet: nothing of the one before is left in it.
  if (wish === 'install') return <InstallSheet key={name} name={name} />
  if (wish === 'upgrade') return <UpgradeSheet key={name} name={name} />
  return wish === 'delete' ? <DeleteSheet key={name} name={name} /> : null
}
