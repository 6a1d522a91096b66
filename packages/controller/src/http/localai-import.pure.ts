// Makes the configuration of a model from the URI of its file, as LocalAI's import does. Pure: it reads nothing, so a URI that names a
// whole repository has no answer.
import { BackendName, type LocalAiImport, ModelFileUri, ModelName } from '@muster/protocol'
import { ModelFileName } from '@muster/protocol'

export interface ImportedModel {
  readonly name: ModelName
  readonly backend: string
  readonly description?: string
  readonly parameters: Readonly<{ model: string }>
  readonly files: readonly Readonly<{ uri: string; filename: string }>[]
}

export type ImportPlan =
  | Readonly<{ kind: 'config'; config: ImportedModel }>
  /** Several backends could serve the file. */
  | Readonly<{ kind: 'ambiguous'; modality: string; candidates: readonly string[]; detail: string }>
  | Readonly<{ kind: 'refused'; message: string }>

/** Backends that are offered or installed. */
export type KnownBackend = Readonly<{ name: string; installed: boolean }>

/** Engines for a kind of file, and what they produce. */
const engines: readonly Readonly<{ suffix: RegExp; modality: string; backends: readonly string[] }>[] = [
  { suffix: /\.gguf$/i, modality: 'text', backends: ['llama', 'llama-cpp'] },
  { suffix: /^ggml-.*\.bin$/i, modality: 'asr', backends: ['whisper'] },
  { suffix: /\.onnx$/i, modality: 'tts', backends: ['piper'] },
]

export const detectedBackends: ReadonlySet<string> = new Set(engines.flatMap(({ backends }) => backends))

export function planImport({ uri, preferences }: LocalAiImport, known: readonly KnownBackend[]): ImportPlan {
  const source = sourceOf(uri)
  if (source === null)
    return {
      kind: 'refused',
      message: `cannot import ${JSON.stringify(uri)}; name one file: https://…/FILE, hf://OWNER/REPOSITORY/FILE, oci://…, s3://BUCKET/KEY or file:///PATH`,
    }
  const filename = ModelFileName.safeParse(source.filename)
  const name = ModelName.safeParse(preferences?.name ?? source.filename.replace(/\.[A-Za-z0-9]+$/, ''))
  if (!filename.success || !name.success) {
    const message = (filename.error ?? name.error)?.issues[0]?.message ?? ''
    return { kind: 'refused', message: `cannot import ${JSON.stringify(uri)}: ${message}; set preferences.name` }
  }
  const choice = chooseBackend(source.filename, preferences?.backend, known)
  if (choice.kind !== 'backend') return choice
  const description = preferences?.description
  return {
    kind: 'config',
    config: {
      ...{ name: name.data, backend: choice.backend, parameters: { model: filename.data } },
      ...(description === undefined ? {} : { description }),
      files: [{ uri: source.uri, filename: filename.data }],
    },
  }
}

type BackendChoice = Readonly<{ kind: 'backend'; backend: string }> | Extract<ImportPlan, { kind: 'ambiguous' | 'refused' }>

/** The preferred one; else the only engine for the kind of file that is installed, or offered. */
function chooseBackend(filename: string, preferred: string | undefined, known: readonly KnownBackend[]): BackendChoice {
  if (preferred !== undefined && preferred !== '') {
    const backend = BackendName.safeParse(preferred)
    if (backend.success) return { kind: 'backend', backend: backend.data }
    return { kind: 'refused', message: `preferences.backend: ${backend.error.issues[0]?.message ?? 'is not the name of a backend'}` }
  }
  const engine = engines.find(({ suffix }) => suffix.test(filename))
  const fitting = engine === undefined ? known : known.filter(({ name }) => engine.backends.includes(name))
  const installed = fitting.filter((each) => each.installed)
  const [only, ...others] = engine === undefined ? [] : installed.length > 0 ? installed : fitting
  if (only !== undefined && others.length === 0) return { kind: 'backend', backend: only.name }
  const candidates = fitting.map(({ name }) => name)
  const detail =
    candidates.length === 0 ? `no gallery offers a backend for ${filename}` : `the backend for ${filename} cannot be told from its name`
  return { kind: 'ambiguous', modality: engine?.modality ?? '', candidates, detail }
}

/** One file, with its URI as Muster reads it. Null: the URI names no single file, or its scheme is unknown. */
function sourceOf(text: string): Readonly<{ uri: string; filename: string }> | null {
  const uri = text
    .trim()
    .replace(/^huggingface:\/\//, 'hf://')
    .replace(huggingFaceFile, 'hf://$1/$2')
  if (!ModelFileUri.safeParse(uri).success || uri.startsWith('upload:') || uri.startsWith('builtin:')) return null
  const path = uri.replace(/^[a-z0-9]+:\/\//i, '').replace(/[?#].*$/, '')
  const parts = path.split('/').filter((part) => part !== '')
  const filename = parts.at(-1) ?? ''
  const isFile = uri.startsWith('hf://') ? parts.length >= 3 : parts.length >= 2
  return isFile && /\.[A-Za-z0-9]+$/.test(filename) ? { uri, filename: decode(filename) } : null
}

/** Pages of a file and its download at Hugging Face, on the main branch. */
const huggingFaceFile = /^https:\/\/huggingface\.co\/([^/]+\/[^/]+)\/(?:resolve|blob)\/main\/([^?#]+)(?:[?#].*)?$/

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
