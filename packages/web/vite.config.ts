// How the web page is built (build.ts), and served while somebody works on it (`npm run dev:web`, beside a controller).
import tailwindcss from '@tailwindcss/vite'
import { defineConfig } from 'vite'

const controller = process.env['MUSTER_URL'] ?? 'http://127.0.0.1:8080'
const proxied = { target: controller, changeOrigin: true, headers: { origin: controller } }

export default defineConfig(({ command }) => {
  // Whoever starts it: tests have NODE_ENV=test, of which React would make the version for developers, and keep it for all.
  if (command === 'build') process.env['NODE_ENV'] = 'production'
  return {
    root: import.meta.dirname,
    plugins: [tailwindcss()],
    build: {
      emptyOutDir: true,
      // Nothing is inlined: the page's own policy allows what comes from its own address and nothing else.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
      target: 'es2023',
      // Since then browsers know `light-dark()`.
      cssTarget: ['chrome123', 'edge123', 'firefox120', 'safari17.5'],
      rolldownOptions: {
        // "use client" is a word to servers that render; there is none here.
        onLog: (level, log, handle) => log.code !== 'MODULE_LEVEL_DIRECTIVE' && handle(level, log),
      },
    },
    server: { proxy: { '/api': proxied, '/v1': proxied, '/login': proxied } },
  }
})
