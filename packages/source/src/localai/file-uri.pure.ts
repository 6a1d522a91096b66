// Converts the URIs that LocalAI's galleries use for files to those of Muster. Files of Hugging Face become hf://, also when they
// are written as https://, so that the endpoint and the token of workers apply.
import { rawGithubUrl } from '../gallery/github-url.pure.ts'

export type ConvertedUri = Readonly<{ uri: string } | { problem: string }>

/** The first form that matches decides. */
const forms: readonly (readonly [RegExp, (...groups: string[]) => ConvertedUri])[] = [
  [/^(?:huggingface:\/\/|hf:\/\/|hf\.co\/|https?:\/\/hf\.co\/)([^/]+\/[^/]+\/.+)$/i, (path) => ({ uri: `hf://${withoutBlob(path)}` })],
  [
    /^https:\/\/huggingface\.co\/([^/]+\/[^/]+)\/(?:resolve|blob)\/([^/]+)\/([^?#]+)/,
    (repository, revision, path) => ({ uri: `hf://${repository}${revision === 'main' ? '' : `@${revision}`}/${path}` }),
  ],
  [/^(github:.+)$/, (text) => fromGithub(text)],
  [/^ollama:\/\/([^/:]+)(?::([^/:]+))?$/, (name, tag = 'latest') => ({ uri: `oci://registry.ollama.ai/library/${name}:${tag}` })],
  [/^ollama:\/\/([^/:]+\/[^:]+)(?::([^/:]+))?$/, (name, tag = 'latest') => ({ uri: `oci://registry.ollama.ai/${name}:${tag}` })],
  [
    /^(ocifile:\/\/.*)$/,
    (uri) => ({ problem: `${uri} is a saved image on the disk of a machine, which is not read; push it to a registry and use oci://` }),
  ],
  [/^(https?:\/\/.+)$/, (uri) => fromWeb(uri)],
  [/^((?:oci|s3|file|builtin):\/\/.+|upload:.+)$/, (uri) => ({ uri })],
  // An image by the name of its registry, without a scheme.
  [/^((?:[a-z0-9-]+\.)+[a-z0-9-]+(?::\d+)?\/.+)$/, (image) => ({ uri: `oci://${image}` })],
]

export function convertFileUri(text: string): ConvertedUri {
  for (const [form, convert] of forms) {
    const match = form.exec(text)
    if (match === null) continue
    const converted = convert(...match.slice(1))
    return 'uri' in converted ? { uri: encodeRest(converted.uri) } : converted
  }
  const shown = JSON.stringify(text.slice(0, 200))
  const expected = 'https://…, huggingface://owner/repo/file, github:owner/repo/path@ref, oci://…, ollama://name:tag or file:///…'
  return { problem: `unsupported file URI ${shown}; expected ${expected}` }
}

/** `owner/repo/blob/main/file` is the address of a page about the file. */
const withoutBlob = (path: string): string => path.replace(/^([^/]+\/[^/]+)\/(?:resolve|blob)\/main\//, '$1/')

function fromGithub(text: string): ConvertedUri {
  const url = rawGithubUrl(text.replace(/^github:\/\//, 'github:'))
  return url === null ? { problem: `${JSON.stringify(text.slice(0, 200))} is not github:owner/repo/path@ref` } : { uri: url.href }
}

function fromWeb(text: string): ConvertedUri {
  const url = URL.parse(text)
  return url === null || url.username !== '' || url.password !== ''
    ? { problem: `${JSON.stringify(text.slice(0, 200))} is not a URL without a password` }
    : { uri: url.href }
}

/** Everything but plain ASCII is escaped; escapes stay as they are. */
const encodeRest = (uri: string): string => uri.toWellFormed().replaceAll(/[^\x21-\x7e]/gu, (char) => encodeURIComponent(char))

const unpacked = /\.(?:tar|tgz|tbz2?|txz|zip|tar\.(?:gz|bz2|xz|zst))$/i
const notUnpacked = /\.(?:rar|7z)$/i

/** LocalAI decides by the name if a file is unpacked. */
export function archiveKind(filename: string): 'archive' | 'unsupported' | null {
  if (unpacked.test(filename)) return 'archive'
  return notUnpacked.test(filename) ? 'unsupported' : null
}
