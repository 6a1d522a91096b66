// Addresses of model files in LocalAI's configurations, as addresses of Muster. Pure.

/** The address as Muster writes it: `huggingface://` is `hf://`, `github:` is the raw file. Others are returned unchanged. */
export function toFileUri(uri: string): string {
  const hub = /^(?:huggingface:\/\/|hf:\/\/|hf\.co\/)(.+)$/i.exec(uri)
  if (hub !== null) return `hf://${escapeText(hub[1] ?? '')}`
  const [, owner, repository, path, ref = 'main'] = /^github:(?:\/\/)?([^/@]+)\/([^/@]+)\/([^@]+)(?:@(.+))?$/i.exec(uri) ?? []
  if (path !== undefined) return `https://raw.githubusercontent.com/${owner}/${repository}/${ref}/${escapeText(path)}`
  return escapeText(uri)
}

/** Characters beyond ASCII and spaces are percent-encoded. */
const escapeText = (text: string): string => text.toWellFormed().replaceAll(/[^\x21-\x7e]+/g, (part) => encodeURIComponent(part))

/** The file name of an address in place of a path; null: it is no address. */
export function fileNameOf(uri: string): string | null {
  if (!/^(?:huggingface:|hf:|hf\.co\/|github:|https?:|oci:|ollama:|s3:|file:)/i.test(uri)) return null
  const path = uri.replace(/[?#].*$/s, '').replace(/^(github:.*)@[^/]*$/i, '$1')
  return path.replace(/^.*\//s, '')
}
