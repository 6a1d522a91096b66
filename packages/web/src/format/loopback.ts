const loopback = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/

/** A name that means the very machine it is said on. */
export const isLoopback = (hostname: string): boolean => loopback.test(hostname)
