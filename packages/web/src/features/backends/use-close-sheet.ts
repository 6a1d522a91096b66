import { useClose } from '../../components/use-close.ts'

/** A sheet is open because the address says so. */
export const useCloseSheet = (): (() => void) => useClose('wish', 'backend')
