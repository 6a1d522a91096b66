// Colours of a terminal; none where they are not wanted.
const codes = { red: 31, green: 32, yellow: 33, blue: 34, dim: 2 } as const
export type Colour = keyof typeof codes
export type Paint = (colour: Colour, text: string) => string

export const createPaint =
  (isColoured: boolean): Paint =>
  (colour, text) =>
    isColoured && text !== '' ? `\u001b[${codes[colour]}m${text}\u001b[${colour === 'dim' ? 22 : 39}m` : text
