// Pure: a thin bar, in two halves so that it can be coloured: what is done and what is left.
export function progressBar(percentage: number, width: number): { readonly done: string; readonly left: string } {
  const halves = Math.floor(((Math.max(0, Math.min(100, percentage)) || 0) / 100) * width * 2)
  const done = `${'━'.repeat(Math.floor(halves / 2))}${halves % 2 === 1 ? '╸' : ''}`
  return { done, left: '─'.repeat(width - done.length) }
}
