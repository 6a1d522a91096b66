import { loginRoutes } from '@muster/protocol'
import { useMutation } from '@tanstack/react-query'
import { call, isLoggedOut } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { useNotices } from '../../components/notices.tsx'

export function LogOutButton() {
  const tell = useNotices()
  const logout = useMutation({
    mutationFn: () => call(loginRoutes.logout),
    onSuccess: () => location.reload(),
    // Whoever is out already is where he wanted to be.
    onError: (error) => (isLoggedOut(error) ? location.reload() : tell('bad', error.message)),
  })
  return (
    <Button onClick={() => logout.mutate()} isBusy={logout.isPending || logout.isSuccess}>
      Log out
    </Button>
  )
}
