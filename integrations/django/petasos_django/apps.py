"""The application: it registers the system checks, and listens for changes of models and for the
end of requests.
"""

from django.apps import AppConfig


class PetasosConfig(AppConfig):
    name = "petasos_django"
    verbose_name = "Petasos"

    def ready(self):
        # Importing the module registers its checks. All of them need the registry of models.
        from . import changes, checks, purges  # noqa: F401

        changes.listen()
        purges.listen()
