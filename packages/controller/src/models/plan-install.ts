// Plans the install of a model from a gallery: finds the entry, chooses a build for the fleet, reads the base file and the
// listings of repositories, and converts the result (source: localai/plan-model.pure.ts). Nothing is stored here.
import { inLanes } from '@muster/host'
import { type ConfigFile, FleetError, type ModelConfig, type ModelGalleryEntry } from '@muster/protocol'
import {
  type BaseFiles,
  chooseVariant,
  type ConvertedKey,
  type ListRepository,
  mergeEntry,
  type MergedEntry,
  noBase,
  noChanges,
  planModel,
  type Snapshot,
  type VariantCandidate,
  type VariantChoice,
  type VariantNode,
  namesNodeFile,
} from '@muster/source'
import type { NodeStore } from '../store/nodes.ts'
import { checkConfig, InvalidConfig } from './config.ts'
import type { MeasureFiles } from './measure-files.ts'
import { findEntry, type ModelCatalogue, type OfferedEntry, type OfferedModels } from './model-catalogue.ts'
import { candidateOf, variantNodes } from './offered-models.ts'

export interface PlanInstallDeps {
  readonly catalogue: ModelCatalogue
  readonly nodes: Pick<NodeStore, 'list'>
  readonly bases: BaseFiles
  readonly list: ListRepository
  readonly measure: MeasureFiles
  readonly stopping: AbortSignal
}

export interface ModelInstall {
  /** A name, or `gallery@name`. */
  readonly model: string
  readonly name?: string | undefined
  readonly variant?: string | undefined
  readonly overrides?: Readonly<Record<string, unknown>> | undefined
  readonly files?: readonly ConfigFile[] | undefined
}

export interface ModelInstallPlan {
  readonly config: ModelConfig
  /** The conversion of LocalAI's keys; empty for an entry in Muster's format. */
  readonly keys: readonly ConvertedKey[]
  /** Null for an entry without other builds. */
  readonly variant: VariantChoice | null
}

/** Throws FleetError, or SourceUnavailable. */
export type PlanModelInstall = (request: ModelInstall) => Promise<ModelInstallPlan>

export function createPlanModelInstall(deps: PlanInstallDeps): PlanModelInstall {
  return async (request) => {
    const offers = await deps.catalogue()
    const requested = findEntry(offers, request.model)
    const variant = await choose(deps, { offers, requested }, request.variant ?? null)
    const built = variant === null || variant.chosen === requested.entry.name ? requested : entryNamed(offers, requested, variant.chosen)
    const overrides = request.overrides ?? {}
    const servedAs = request.name ?? (built === requested ? null : nameOf(requested.entry))
    const changes = { name: servedAs, overrides, files: request.files ?? [] }
    const merged = mergeEntry(built.entry, { base: await baseOf(deps, built), changes })
    if (merged.problem !== null) throw refusal(requested, merged.problem)
    const { config, keys } = planModel(merged, await snapshotsOf(deps, merged))
    const refused = keys.filter(({ outcome }) => outcome === 'refused')
    if (refused.length > 0) throw refusal(requested, refused.map(({ key, message }) => `${key}: ${message}`).join('; '))
    const model = checked(requested, config)
    const foreign = findForeignFile(model, { gallery: built.url, own: changes.files })
    if (foreign !== null) throw refusal(requested, `${foreign.filename}: ${foreign.uri} ${namesNodeFile}`)
    return { config: model, keys, variant }
  }
}

type FileQuery = Readonly<{ gallery: string; own: readonly ConfigFile[] }>

/** A file of the node that a gallery from the network names, in its entry, its base file or its configuration; null otherwise. */
function findForeignFile({ files }: ModelConfig, { gallery, own }: FileQuery): ConfigFile | null {
  if (/^(?:file|builtin):/.test(gallery)) return null
  const isOwn = ({ filename, uri }: ConfigFile): boolean => own.some((each) => each.filename === filename && each.uri === uri)
  return files.find((file) => /^(?:file|builtin|upload):/.test(file.uri) && !isOwn(file)) ?? null
}

/** The configuration of an entry in Muster's own format, which needs nothing else. */
export function planOwn(offered: OfferedEntry): ModelConfig {
  const merged = mergeEntry(offered.entry, { base: noBase, changes: noChanges })
  return checked(offered, planModel(merged, []).config)
}

/** The name that its overrides give it. */
const nameOf = ({ name, localai }: ModelGalleryEntry): string =>
  typeof localai?.overrides['name'] === 'string' ? localai.overrides['name'] : name

const baseOf = async ({ bases, stopping }: PlanInstallDeps, { url, entry }: OfferedEntry) =>
  entry.localai === null || entry.localai.base === null ? noBase : await bases.read({ url: entry.localai.base, galleryUrl: url }, stopping)

/** Repositories of one model. */
const listsAtOnce = 4

async function snapshotsOf({ list, stopping }: PlanInstallDeps, { artifacts }: MergedEntry): Promise<Snapshot[]> {
  return await inLanes(artifacts, { atOnce: listsAtOnce, signal: stopping }, async (artifact, { signal }) => ({
    artifact,
    listing: await list(artifact, signal),
  }))
}

/** A build of the same gallery, else of the first that has it. */
function entryNamed({ models }: OfferedModels, { gallery }: OfferedEntry, name: string): OfferedEntry {
  const found = models.filter(({ entry }) => entry.name === name)
  const built = found.find((each) => each.gallery === gallery) ?? found[0]
  if (built === undefined) throw new FleetError({ code: 'not_found', retry: 'never', message: `no gallery offers a model ${name}` })
  return built
}

async function choose(
  deps: PlanInstallDeps,
  { offers, requested }: { offers: OfferedModels; requested: OfferedEntry },
  pin: string | null,
): Promise<VariantChoice | null> {
  const { entry } = requested
  if (entry.variants.length === 0 && pin === null) return null
  const offered = entry.variants.flatMap(
    (name) => offers.models.find((each) => each.gallery === requested.gallery && each.entry.name === name) ?? [],
  )
  const sized = async (each: OfferedEntry): Promise<VariantCandidate> => {
    // The backend may be named by the base file; a choice without it is still a choice.
    await baseOf(deps, each).catch(() => null)
    const sizeBytes = each.entry.size_bytes ?? (await deps.measure(each.entry.files, deps.stopping))
    return { ...candidateOf(deps.bases, each), sizeBytes }
  }
  const isPinned = pin !== null
  const [base, ...variants] = await Promise.all(
    [requested, ...offered].map(async (each) => (isPinned ? candidateOf(deps.bases, each) : await sized(each))),
  )
  const nodes: readonly VariantNode[] = isPinned ? [] : variantNodes(await deps.nodes.list())
  const choice = base === undefined ? null : chooseVariant({ base, variants, nodes, pin })
  if (choice !== null) return choice
  const names = [entry.name, ...entry.variants].join(', ')
  throw new FleetError({ code: 'invalid', retry: 'never', message: `${entry.name} has no variant ${pin}; it has ${names}` })
}

function checked(requested: OfferedEntry, config: Readonly<Record<string, unknown>>): ModelConfig {
  try {
    return checkConfig(config, { name: null, lineOf: () => null })
  } catch (error) {
    if (error instanceof InvalidConfig) throw refusal(requested, error.message, error)
    throw error
  }
}

function refusal({ gallery, entry }: OfferedEntry, problem: string, cause?: unknown): FleetError {
  const message = `invalid configuration of ${entry.name} in the gallery ${gallery}: ${problem}`.slice(0, 4000)
  return new FleetError({ code: 'invalid', retry: 'never', message }, { cause })
}

/** The note of an operation: the chosen build, and LocalAI's keys that have no effect. Empty when there is nothing to say. */
export function installNote({ keys, variant }: Omit<ModelInstallPlan, 'config'>): string {
  const lost = keys.filter(({ outcome }) => outcome === 'no_effect').map(({ key }) => key)
  const shown = lost.slice(0, 20).join(', ')
  return [
    ...(variant === null ? [] : [`variant ${variant.chosen}: ${variant.reason}`]),
    ...(lost.length === 0 ? [] : [`without effect: ${shown}${lost.length > 20 ? ` and ${lost.length - 20} more` : ''}`]),
  ].join('; ')
}
