/** Whether a URL leads to this machine alone. */
export const isLoopback = ({ hostname }: URL): boolean =>
  hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname)
