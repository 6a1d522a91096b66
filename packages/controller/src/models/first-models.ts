// The models that a new installation begins with. Once: whoever deletes one does not get it back at the next start.
import { ModelName } from '@muster/protocol'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import { builtinGalleryName } from '../settings.ts'
import type { ModelStore } from '../store/models.ts'
import { findModel } from './model-catalogue.ts'
import { revisionOf } from './revision.ts'

export async function registerFirstModels(
  names: readonly string[],
  { builtin, models }: { builtin: BuiltinBlobs; models: ModelStore },
): Promise<void> {
  const offered = { models: builtin.models.map((entry) => ({ gallery: builtinGalleryName, entry })), problems: [] }
  const configs = names.map((name) => findModel(offered, ModelName.parse(name)))
  await models.begin(configs.map((config) => ({ config, revision: revisionOf(config) })))
}
