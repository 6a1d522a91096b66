// Converts the addresses that LocalAI uses for files to those of Muster. Pure.

export type ConvertedUri = Readonly<{ uri: string } | { problem: string }>

const schemes = /^(?:https?|hf|oci|s3|file):\/\//

/** `huggingface://` is `hf://`, and `github:` the raw file. */
export function convertFileUri(text: string): ConvertedUri {
  const [, hub] = /^(?:huggingface:\/\/|hf:\/\/|hf\.co\/)(.+)$/i.exec(text) ?? []
  if (hub !== undefined) return { uri: `hf://${escapeText(hub)}` }
  const [, owner, repository, path, ref = 'main'] = /^github:(?:\/\/)?([^/@]+)\/([^/@]+)\/([^@]+)(?:@(.+))?$/i.exec(text) ?? []
  if (path !== undefined) return { uri: `https://raw.githubusercontent.com/${owner}/${repository}/${ref}/${escapeText(path)}` }
  if (schemes.test(text)) return { uri: escapeText(text) }
  return {
    problem: `unsupported file URI ${JSON.stringify(text.slice(0, 200))}; expected https://…, huggingface://owner/repo/file or oci://…`,
  }
}

/** Characters beyond ASCII and spaces are percent-encoded. */
const escapeText = (text: string): string => text.toWellFormed().replaceAll(/[^\x21-\x7e]+/g, (part) => encodeURIComponent(part))

/** Stub: archives are not unpacked yet. */
export function archiveKind(_filename: string): 'archive' | 'unsupported' | null {
  return null
}
