// The page's own policy forbids to make code out of text, which zod would try for its speed. Imported before everything
// else, because schemas are used as soon as they are there.
import { z } from 'zod'

z.config({ jitless: true })
