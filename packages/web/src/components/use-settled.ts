import { useEffect, useState } from 'react'

const pauseMs = 250

/** What is typed, once it has stayed the same for a moment. From nothing (null) to something is no typing: that is at once. */
export function useSettled<T extends string | null>(value: T): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), settled === null ? 0 : pauseMs)
    return () => clearTimeout(timer)
  }, [value, settled])
  return settled
}
