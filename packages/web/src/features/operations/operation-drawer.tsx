export function OperationDrawer() {
  return null
}
