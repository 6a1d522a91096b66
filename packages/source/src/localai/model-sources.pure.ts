// Sources of files in a LocalAI model configuration: addresses in place of paths, lists of downloads, repositories. Pure.
import { ConfigFile } from '@muster/protocol'
import { convertFileUri } from './file-uri.pure.ts'
import { isObject, textOf } from './go-values.pure.ts'

export type FoundSource = Readonly<{ file: ConfigFile } | { problem: string }>

export const isAddress = (text: string): boolean => /^(?:huggingface:|hf:|hf\.co\/|github:|https?:|oci:|ollama:|s3:|file:)/i.test(text)

const maxAddress = 2048

/** An address in place of a path: the file has the name of the last part of the address. */
export function readAddress(address: string): FoundSource {
  // Checked first: the expressions below take too long for a text of megabytes.
  if (address.length > maxAddress) return { problem: `an address has at most ${maxAddress} characters` }
  const path = address.replace(/[?#].*$/s, '').replace(/^(github:.*)@[^/]*$/i, '$1')
  return readFile({ uri: address, filename: path.replace(/^.*\//s, '') })
}

function readFile({ uri, filename, sha256 }: { uri: unknown; filename: unknown; sha256?: unknown }): FoundSource {
  const converted = convertFileUri(textOf(uri) ?? '')
  if ('problem' in converted) return converted
  const hash = textOf(sha256) ?? ''
  const file = ConfigFile.safeParse({ filename, uri: converted.uri, ...(hash === '' ? {} : { sha256: hash.toLowerCase() }) })
  return file.success ? { file: file.data } : { problem: file.error.issues[0]?.message ?? 'the file is not valid' }
}

/** The files of `download_files`, or the problem of the first that cannot be taken. */
export function readDownloads(value: unknown): Readonly<{ files: readonly ConfigFile[] } | { problem: string }> {
  if (!Array.isArray(value)) return { problem: 'LocalAI expects a list here, and refuses the file as well' }
  const files: ConfigFile[] = []
  for (const [index, item] of value.entries()) {
    const { uri, filename, sha256 } = isObject(item) ? item : {}
    const found = readFile({ uri, filename, sha256 })
    if ('problem' in found) return { problem: `file ${index + 1} cannot be taken: ${found.problem}` }
    files.push(found.file)
  }
  return { files }
}

/** The repositories that `artifacts` name; null: there are none. */
export function listRepositories(value: unknown): readonly string[] | null {
  if (!Array.isArray(value) || value.length === 0) return null
  return value.flatMap((item) => {
    const repository = isObject(item) && isObject(item['source']) ? textOf(item['source']['repo']) : null
    return repository === null ? [] : [repository]
  })
}
