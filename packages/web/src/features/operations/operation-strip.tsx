export function OperationStrip() {
  return null
}
