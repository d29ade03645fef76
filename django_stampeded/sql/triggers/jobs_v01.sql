SELECT stampeded_install_triggers('stampeded_jobs'), stampeded_install_triggers('stampeded_jobs_default'),
       stampeded_set_storage('stampeded_jobs_default');
