// /api/galleries: sources of backends and models.
import { z } from 'zod'
import { route } from './define.ts'

export const GalleryName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'a gallery name is 1–63 characters of A–Z, a–z, 0–9 and . _ -')
export type GalleryName = z.infer<typeof GalleryName>

export const GalleryKind = z.enum(['backend', 'model'])
export type GalleryKind = z.infer<typeof GalleryKind>

const isReadable = (text: string): boolean => {
  if (/^github:[\w.-]+\/[\w.-]+\/[\w./-]+(?:@[\w./-]+)?$/.test(text)) return true
  const url = URL.parse(text)
  return url !== null && ['https:', 'http:', 'file:'].includes(url.protocol) && url.username === '' && url.password === ''
}
export const GalleryUrl = z
  .string()
  .max(2048)
  .regex(/^[\x21-\x7e]+$/, 'a URL has no spaces')
  .refine(isReadable, 'a gallery is at https://…, http://…, file:///… or github:owner/repo/path@ref, without a password')

/** A gallery in the settings of workers. */
export const GalleryAddress = z.object({ name: z.string().max(63), url: z.string().max(2048), kind: GalleryKind })
export type GalleryAddress = z.infer<typeof GalleryAddress>

export const GalleryView = GalleryAddress.extend({
  /** `builtin` is part of Muster, `setting` comes from the command line of a controller; the API changes neither. */
  from: z.enum(['builtin', 'setting', 'api']),
  created_at: z.string().nullable(),
  /** The number of entries; null while the gallery cannot be read. */
  entries: z.number().nullable().optional(),
  /** The number of entries that cannot be read; null while the gallery cannot be read. */
  left_out: z.number().nullable().optional(),
})
export type GalleryView = z.infer<typeof GalleryView>

/** An entry of a gallery that cannot be read; the others count. */
export const LeftOutEntry = z.object({
  /** Its position in the list, from 0. */
  index: z.number(),
  /** Empty when it has none. */
  name: z.string(),
  message: z.string(),
})
export type LeftOutEntry = z.infer<typeof LeftOutEntry>

/** The entries that a gallery leaves out: the exact number, and the first ones. */
export const LeftOut = z.object({ gallery: z.string(), count: z.number(), entries: z.array(LeftOutEntry) })
export type LeftOut = z.infer<typeof LeftOut>

const params = z.object({ name: GalleryName })

export const galleryRoutes = {
  list: route({
    method: 'GET',
    path: '/api/galleries',
    access: 'read',
    summary: 'List galleries in lookup order',
    response: z.object({ galleries: z.array(GalleryView) }),
  }),
  put: route({
    method: 'PUT',
    path: '/api/galleries/:name',
    access: 'admin',
    summary: 'Add a gallery, or change its URL',
    params,
    body: z.strictObject({ url: GalleryUrl, kind: GalleryKind }),
    /** `problem`: the reason why it cannot be read now; null when it was read. */
    response: GalleryView.extend({ problem: z.string().nullable().optional() }),
  }),
  remove: route({
    method: 'DELETE',
    path: '/api/galleries/:name',
    access: 'admin',
    summary: 'Remove a gallery; installed backends and models stay',
    params,
    status: 204,
  }),
}
